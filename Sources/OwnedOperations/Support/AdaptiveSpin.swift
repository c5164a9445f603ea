/// Looking for a moment before a thread sleeps, where that pays.
///
/// To be woken takes a thread 3 us, and 20 us where its processor has gone to sleep meanwhile. To wake it takes whoever does that 2 to 7 us
/// (Linux, a virtual machine). What comes within a few microseconds had better be looked for. What takes longer must not be: that would
/// burn a processor. So each thread remembers, for each purpose, how it went:
///
/// - After `shortSleeps` sleeps in a row, none longer than `shortSleep`, it looks once.
/// - To find what it looks for is worth another look, up to `mostLooks`. To look in vain costs one. When none is left, it only sleeps.
///
/// So where looks find nothing, a thread looks `longestLook` for every `shortSleeps` sleeps. A thread whose sleeps are longer never looks.
struct AdaptiveSpin {
  /// Before a blocking wait.
  static let ofWaits = AdaptiveSpin(slot: .waits)
  /// Before a worker's thread parks.
  static let ofParking = AdaptiveSpin(slot: .parking)

  /// All in nanoseconds.
  private static let shortSleep: UInt64 = 100_000
  private static let longestLook: UInt64 = 20_000
  /// What answers at once does so by then. From then on others may have the processor.
  private static let firstLook: UInt64 = 4_000
  private static let shortSleeps: UInt8 = 8
  private static let mostLooks: UInt8 = 4

  /// What a thread remembers of one purpose.
  struct History {
    fileprivate(set) var looks: UInt8 = 0
    fileprivate(set) var shortSleeps: UInt8 = 0

    mutating func noteLook(found: Bool) { looks = found ? min(looks + 1, AdaptiveSpin.mostLooks) : looks - 1 }

    mutating func noteSleep(_ time: UInt64) {
      shortSleeps = time <= AdaptiveSpin.shortSleep ? shortSleeps + 1 : 0
      if time > AdaptiveSpin.shortSleep { looks = 0 }
      guard shortSleeps == AdaptiveSpin.shortSleeps else { return }
      shortSleeps = 0
      looks = max(looks, 1)
    }
  }

  private let slot: ThreadSlot

  private init(slot: ThreadSlot) { self.slot = slot }

  /// Kept in the slot itself, in place of a pointer.
  private var history: History {
    get {
      let bits = UInt(bitPattern: slot.pointer)
      return History(looks: UInt8(truncatingIfNeeded: bits), shortSleeps: UInt8(truncatingIfNeeded: bits >> 8))
    }
    nonmutating set { slot.pointer = UnsafeMutableRawPointer(bitPattern: UInt(newValue.looks) | UInt(newValue.shortSleeps) << 8) }
  }

  /// Looks, if that pays.
  /// - Returns: whether it has seen the end. If not, it may have come all the same.
  func look(until isOver: () -> Bool) -> Bool {
    guard history.looks > 0, Pause.passesTime else { return false }
    // What is there already counts as found: who is waited for is quick.
    let found = isOver() || spin(until: isOver)
    history.noteLook(found: found)
    return found
  }

  private func spin(until isOver: () -> Bool) -> Bool {
    let start = Uptime.now
    var now = start
    repeat {
      for _ in 0..<8 {
        Pause.spin(4)
        if isOver() { return true }
      }
      if now > start + Self.firstLook { Pause.giveWay() }
      now = Uptime.now
    } while now < start + Self.longestLook
    return false
  }

  /// The body blocks the thread.
  func sleep<Result>(_ body: () -> Result) -> Result {
    let start = Uptime.now
    defer { history.noteSleep(Uptime.now - start) }
    return body()
  }
}
