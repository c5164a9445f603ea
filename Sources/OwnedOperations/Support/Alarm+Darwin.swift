#if canImport(ObjectiveC) || !os(Linux) || OWNED_OPERATIONS_MODEL
  import Dispatch

  /// Calls a body at a time, on a thread where it may block. For what is rarely asked, and in the model: the timer is swapped there.
  struct Alarm: Sendable {
    private let timer: UptimeTimer

    init(_ body: @escaping @Sendable () -> Void) {
      // A serial queue of its own: GCD gives those a thread even while all of the pool's are blocked.
      timer = UptimeTimer(on: DispatchQueue(label: "OwnedOperations.alarm", qos: .userInitiated))
      timer.setHandler(body)
      timer.set(.distantFuture)
      timer.activate()
    }

    /// Has it ring at the time, instead of at the one set before. In nanoseconds of `Uptime`. Any thread.
    func set(_ time: UInt64) { timer.set(DispatchTime(uptimeNanoseconds: time)) }

    /// Once. It doesn't ring any more; nobody waits for one that rings.
    func cancel() { timer.cancel() }
  }
#endif
