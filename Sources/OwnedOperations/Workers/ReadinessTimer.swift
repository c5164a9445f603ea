import Dispatch

/// When the watched operations of one queue are asked. It has a thread of its own when it is due: an answer may take its time.
///
/// `next` is the deadline that the source is set to, or later than any. A call for an earlier one sets the source; a call for a later one
/// does nothing.
/// `begin` forgets the deadline before the round looks at anything, so that a call that comes later is heard.
final class ReadinessTimer: Sendable {
  private let timer: UptimeTimer
  private let next = Locked(UInt64.max)

  /// - Parameter ask: asks; on a thread of the timer's own.
  init(_ ask: @escaping @Sendable () -> Void) {
    // A serial queue of its own: GCD gives those a thread even while all of the pool's are blocked.
    timer = UptimeTimer(on: DispatchQueue(label: "OwnedOperations.readiness", qos: .userInitiated))
    timer.setHandler(ask)
    timer.set(.distantFuture)
    timer.activate()
  }

  deinit { timer.cancel() }

  /// In nanoseconds of `DispatchTime`'s clock.
  func ask(noLaterThan deadline: UInt64) {
    next.withLock { next in
      guard deadline < next else { return }
      next = deadline
      timer.set(DispatchTime(uptimeNanoseconds: deadline))
    }
  }

  func begin() {
    if !Mutation.readinessIsAskedOnce.isOn { next.withLock { $0 = .max } }
  }
}
