import Dispatch

/// The clock of the library: the one place that reads it, and waits for it.
enum Uptime {
  /// Nanoseconds since some time before the process began. Doesn't count while the machine sleeps.
  @inline(__always)  // read before and after each batch
  static var now: UInt64 {
    #if OWNED_OPERATIONS_MODEL
      if ModelRun.thread != nil { return ModelRun.now }
    #endif
    return DispatchTime.now().uptimeNanoseconds
  }

  /// For calls that want a time of GCD's.
  static func time(after interval: DispatchTimeInterval) -> DispatchTime {
    #if OWNED_OPERATIONS_MODEL
      if ModelRun.thread != nil { return DispatchTime(uptimeNanoseconds: ModelRun.now) + interval }
    #endif
    return DispatchTime.now() + interval
  }

  /// Calls the body on the queue when the interval has passed.
  static func call(after interval: DispatchTimeInterval, on queue: DispatchQueue, _ body: @escaping @Sendable () -> Void) {
    #if OWNED_OPERATIONS_MODEL
      if ModelRun.start(body, at: time(after: interval).uptimeNanoseconds, on: queue) != nil { return }
    #endif
    queue.asyncAfter(deadline: time(after: interval), execute: body)
  }
}

#if !OWNED_OPERATIONS_MODEL
  /// Calls a handler at a time, on a queue of GCD's. Must have been set and activated before it is let go of.
  struct UptimeTimer: @unchecked Sendable {  // GCD's sources may be used from any thread
    private let source: any DispatchSourceTimer

    init(on queue: DispatchQueue) { source = DispatchSource.makeTimerSource(queue: queue) }

    /// Once, before `activate`. The handler is kept until the timer is cancelled.
    func setHandler(qos: DispatchQoS = .unspecified, flags: DispatchWorkItemFlags = [], _ handler: @escaping @Sendable () -> Void) {
      source.setEventHandler(qos: qos, flags: flags, handler: handler)
    }

    /// Has the handler called at the time, instead of at the one set before. Any thread.
    func set(_ time: DispatchTime, leeway: DispatchTimeInterval = .nanoseconds(0)) { source.schedule(deadline: time, leeway: leeway) }

    /// Once.
    func activate() { source.activate() }

    /// The handler isn't called any more, and let go of.
    func cancel() { source.cancel() }
  }
#endif
