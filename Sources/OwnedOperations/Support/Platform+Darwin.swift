#if canImport(Darwin)
  import Darwin
  import Dispatch

  /// The C library's calls that differ between platforms, or that only a few places may make.
  enum Platform {
    typealias ThreadID = pthread_t

    /// Nobody else's as long as the thread is there.
    static var currentThread: ThreadID { pthread_self() }

    /// Has a new thread, which nobody waits for, call `ThreadStart.main` with the context.
    /// - Returns: false if there is none to be had.
    static func startThread(_ context: UnsafeMutableRawPointer) -> Bool {
      var thread: pthread_t?
      // Detached from the first: see the same for Linux.
      var attributes = pthread_attr_t()
      guard pthread_attr_init(&attributes) == 0 else { return false }
      defer { pthread_attr_destroy(&attributes) }
      pthread_attr_setdetachstate(&attributes, CInt(PTHREAD_CREATE_DETACHED))
      return pthread_create(
        &thread, &attributes,
        { context in
          ThreadStart.main(context)
          return nil
        }, context) == 0
    }

    /// Lets another thread have the processor, if one wants it.
    static func yield() { sched_yield() }

    /// Where the runtime runs tasks. The cooperative pool has a thread for each processor, and no more when one blocks.
    static var runsTasksWhereThreadsMayBlock: Bool { false }

    /// Whether code of the user's may run when a property of Foundation's is set.
    static var hasKeyValueObserving: Bool { true }

    static func sleep(microseconds: UInt32) { usleep(microseconds) }

    /// The usage of this thread. Not told here: there is no call that says how often a thread has waited.
    static var threadUsage: ThreadUsage? { nil }

    /// One call, so that lines of several threads don't mix. There is nobody to tell when it fails.
    static func writeToStandardError(_ line: String) {
      var line = line
      line.withUTF8 { _ = write(STDERR_FILENO, $0.baseAddress, $0.count) }
    }
  }

  typealias PlatformSemaphore = DispatchSemaphore

  /// The processor time of one thread, which any thread may ask. Not told here: there is no clock that another thread could read.
  struct ThreadClock: ~Copyable, Sendable {
    init() {}
    func begin() {}
    func end() {}
    var now: UInt64? { nil }
  }
#endif
