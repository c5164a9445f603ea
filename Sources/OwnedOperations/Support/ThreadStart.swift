import Dispatch

/// Where threads come from: all that the library starts is started here.
enum ThreadStart {
  /// Runs the body on a new thread, which ends with it.
  /// - Returns: false if there is none to be had.
  static func onNewThread(_ body: @escaping @Sendable () -> Void) -> Bool {
    let context = Retained(Body(run: body))
    let isStarted = Platform.startThread(context.address)
    if !isStarted { context.release() }
    return isStarted
  }

  /// What a new thread runs.
  /// - Parameter context: as it was given to `Platform.startThread`. Never nil; whether its type can be is not the same everywhere.
  static func main(_ context: UnsafeMutableRawPointer?) {
    guard let context else { return }
    Retained<Body>(address: context).take().run()
  }

  /// Runs the body on one of GCD's threads, when there is one.
  static func onPool(qos: DispatchQoS.QoSClass, _ body: @escaping @Sendable () -> Void) {
    #if OWNED_OPERATIONS_MODEL
      if ModelRun.start(body) { return }
    #endif
    DispatchQueue.global(qos: qos).async(execute: body)
  }

  /// Runs the body on the queue, when its turn comes.
  static func on(_ queue: DispatchQueue, _ body: @escaping @convention(block) @Sendable () -> Void) {
    #if OWNED_OPERATIONS_MODEL
      if ModelRun.start(body, on: queue) { return }
    #endif
    queue.async(execute: body)
  }

  /// Runs the body on the queue, when its turn comes, as the caller has asked GCD for it.
  static func on(_ queue: DispatchQueue, qos: DispatchQoS, flags: DispatchWorkItemFlags, _ body: @escaping @Sendable () -> Void) {
    #if OWNED_OPERATIONS_MODEL
      if ModelRun.start(body, on: queue) { return }
    #endif
    queue.async(qos: qos, flags: flags, execute: body)
  }

  private final class Body: Sendable {
    let run: @Sendable () -> Void
    init(run: @escaping @Sendable () -> Void) { self.run = run }
  }
}
