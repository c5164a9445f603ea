import Foundation

/// Whether the system has the threads to give that the tool needs itself. GCD waits for ever for one that it can't have.
enum ThreadProbe {
  /// For signals, timers, output, the queue's workers, and tasks; and one process for the guard.
  private static var needed: Int { 10 + 2 * ProcessInfo.processInfo.activeProcessorCount }

  /// Has as many at once for a moment.
  static func check() throws(UsageError) {
    let gate = DispatchSemaphore(value: 0)
    let ended = DispatchSemaphore(value: 0)
    var started = 0
    while started < needed,
      start({
        gate.wait()
        ended.signal()
      })
    {
      started += 1
    }
    for _ in 0..<started { gate.signal() }
    for _ in 0..<started { ended.wait() }
    guard started == needed else {
      throw UsageError("run: the system has \(started) threads to give, and \(needed) are needed; see ulimit -u")
    }
  }

  private final class Body: Sendable {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
  }

  /// Not with `Thread`, which does not tell.
  private static func start(_ body: @escaping @Sendable () -> Void) -> Bool {
    var attributes = pthread_attr_t()
    guard pthread_attr_init(&attributes) == 0 else { return false }
    defer { pthread_attr_destroy(&attributes) }
    pthread_attr_setdetachstate(&attributes, CInt(PTHREAD_CREATE_DETACHED))
    let context = Unmanaged.passRetained(Body(body))
    var thread = System.makeThread()
    let error = pthread_create(&thread, &attributes, { context in ThreadProbe.run(context) }, context.toOpaque())
    if error != 0 { context.release() }
    return error == 0
  }

  private static func run(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    if let context { Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run() }
    return nil
  }
}
