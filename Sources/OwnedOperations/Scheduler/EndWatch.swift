/// When to look whether work is over that is not counted as such, because its worker is still with what that leaves: a deinit of the user's
/// that blocks, or computes.
///
/// While every worker has a single item nobody needs to look, were it not for those who wait for that item: a barrier, or who asked for the
/// end of the work. A body may well take hours. So these looks become rare while none begins: after 2 ms, 4 ms, and so on until 128 ms. A
/// look that finds such work has the monitor see to it.
struct EndWatch {
  private static let (leastDelay, mostDelay) = (2, 128)
  /// A look is due, or is being asked for.
  private var isSet = false
  private var delay = Self.leastDelay
  private var lastSerial: UInt64 = 0

  func isDue(_ isAwaited: Bool) -> Bool { isAwaited && !isSet }

  mutating func set() -> Int {
    isSet = true
    return delay
  }

  /// - Parameter serial: how many batches have been taken.
  mutating func noteLook(isAwaited: Bool, at serial: UInt64) {
    if !Mutation.endsAreLookedForOnce.isOn { isSet = false }
    delay = isAwaited && serial == lastSerial ? min(delay * 2, Self.mostDelay) : Self.leastDelay
    lastSerial = serial
  }
}
