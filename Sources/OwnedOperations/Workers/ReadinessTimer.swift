/// When the watched operations of one queue are asked. The alarm has a thread where it rings: an answer may take its time.
///
/// `next` is the deadline that the alarm is set to, or later than any. A call for an earlier one sets the alarm; a call for a later one
/// does nothing.
/// `begin` forgets the deadline before the round looks at anything, so that a call that comes later is heard.
final class ReadinessTimer: Sendable {
  private let alarm: Alarm
  private let next = Locked(UInt64.max)

  /// - Parameter ask: asks; on a thread where it may block.
  init(_ ask: @escaping @Sendable () -> Void) { alarm = Alarm(ask) }

  deinit { alarm.cancel() }

  /// In nanoseconds of `Uptime`.
  func ask(noLaterThan deadline: UInt64) {
    next.withLock { next in
      guard deadline < next else { return }
      next = deadline
      alarm.set(deadline)
    }
  }

  func begin() {
    if !Mutation.readinessIsAskedOnce.isOn { next.withLock { $0 = .max } }
  }
}
