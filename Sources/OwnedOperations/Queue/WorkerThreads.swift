import Synchronization

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Darwin)
  import Darwin
#endif

/// Where workers get their threads from.
///
/// GCD has 255 threads for the serial queues of a quality of service. Workers of all queues together take up to 192 of these; a dispatch beyond that, which
/// may be to the work that all the others are waiting for, gets a thread of its own. (To run it on the stack of a worker that waits would save the thread, but is not sound: the work could
/// wait for what lies further down on that stack.) Nothing is lost if the system has no more threads to give: the work then waits for one of GCD's.
enum WorkerThreads {
  static let mostFromPool = 192
  private static let fromPool = Atomic<Int>(0)

  /// - Returns: whether the caller may use a thread of GCD's, and has to give it back.
  static func takeFromPool() -> Bool {
    if fromPool.wrappingAdd(1, ordering: .relaxed).newValue <= mostFromPool { return true }
    giveBackToPool()
    return false
  }

  static func giveBackToPool() {
    fromPool.wrappingSubtract(1, ordering: .relaxed)
  }

  /// Runs the body on a new thread, which ends with it.
  /// - Returns: false if there is none to be had.
  static func runOnThreadOfItsOwn(_ body: @escaping @Sendable () -> Void) -> Bool {
    let unmanaged = Unmanaged.passRetained(Body(body))
    #if canImport(Glibc)
      var thread = pthread_t()
    #else
      var thread: pthread_t?
    #endif
    // What the thread gets is never nil; whether its type can be is not the same everywhere.
    let error = pthread_create(&thread, nil, { WorkerThreads.run($0) }, unmanaged.toOpaque())
    guard error == 0 else {
      unmanaged.release()
      return false
    }
    return true
  }

  private static func run(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    pthread_detach(pthread_self())
    guard let context else { return nil }
    Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run()
    return nil
  }

  private final class Body: Sendable {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
  }
}
