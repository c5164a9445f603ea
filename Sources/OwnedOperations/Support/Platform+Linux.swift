#if !canImport(Darwin)
  #if canImport(Glibc)
    import Glibc
  #elseif canImport(Musl)
    import Musl
  #endif
  import COwnedOperations
  import Dispatch
  import Synchronization

  /// The C library's calls that differ between platforms, or that only a few places may make.
  enum Platform {
    typealias ThreadID = pthread_t

    /// Nobody else's as long as the thread is there.
    static var currentThread: ThreadID { pthread_self() }

    /// Has a new thread, which nobody waits for, call `ThreadStart.main` with the context.
    /// - Returns: false if there is none to be had.
    static func startThread(_ context: UnsafeMutableRawPointer) -> Bool {
      #if canImport(Glibc)
        var thread = pthread_t()
      #else
        var thread: pthread_t?
      #endif
      // Detached from the first. AddressSanitizer takes a thread that detaches itself for one that is yet to be joined; when the system
      // gives its number to another thread, what that one has on its stack counts as leaked.
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

    /// Where the runtime runs tasks. Dispatch's default pool, which gets another thread when one blocks.
    static var runsTasksWhereThreadsMayBlock: Bool { true }

    /// Whether code of the user's may run when a property of Foundation's is set.
    static var hasKeyValueObserving: Bool { false }

    static func sleep(microseconds: UInt32) { usleep(microseconds) }

    /// The usage of this thread; nil where that can't be told.
    static var threadUsage: ThreadUsage? {
      #if os(Linux) && !OWNED_OPERATIONS_MODEL
        var usage = coo_usage()
        guard coo_thread_usage(&usage) else { return nil }
        return ThreadUsage(
          processorTime: usage.processor_time, voluntarySwitches: usage.voluntary_switches, involuntarySwitches: usage.involuntary_switches)
      #else
        return nil
      #endif
    }

    /// One call, so that lines of several threads don't mix. There is nobody to tell when it fails.
    static func writeToStandardError(_ line: String) {
      var line = line
      line.withUTF8 { _ = write(STDERR_FILENO, $0.baseAddress, $0.count) }
    }
  }

  #if os(Linux) && !OWNED_OPERATIONS_MODEL
    /// Waits in time by the clock of `Uptime`. Dispatch's goes by the time of day here: set back by an hour, it would wait an hour longer.
    final class PlatformSemaphore: Sendable {
      nonisolated(unsafe) private let semaphore: UnsafeMutablePointer<coo_semaphore>  // its protocol is in the header

      init(value: Int) {
        semaphore = .allocate(capacity: 1)
        semaphore.initialize(to: coo_semaphore(word: UInt64(value)))
      }

      deinit { semaphore.deallocate() }

      func signal() { coo_semaphore_signal(semaphore) }
      func wait() { _ = coo_semaphore_wait(semaphore, .max) }
      func wait(timeout: DispatchTime) -> DispatchTimeoutResult {
        // `distantFuture` is the maximum in both.
        coo_semaphore_wait(semaphore, timeout.uptimeNanoseconds) ? .success : .timedOut
      }
    }
  #else
    typealias PlatformSemaphore = DispatchSemaphore
  #endif

  /// The processor time of one thread, which any thread may ask.
  ///
  /// `begin` is called by the thread, `end` before it goes; whoever asks sees to it that the thread is there as long as it asks.
  struct ThreadClock: ~Copyable, Sendable {
    /// 0 between `end` and `begin`.
    private let clock = Atomic<clockid_t>(0)

    init() {}

    func begin() {
      var own = clockid_t()
      if pthread_getcpuclockid(pthread_self(), &own) == 0 { clock.store(own, ordering: .relaxed) }
    }

    func end() { clock.store(0, ordering: .relaxed) }

    /// In nanoseconds; nil where that can't be told.
    var now: UInt64? {
      #if OWNED_OPERATIONS_MODEL
        if ModelRun.thread != nil { return 0 }
      #endif
      let clock = clock.load(ordering: .relaxed)
      guard clock != 0 else { return nil }
      var time = timespec()
      guard clock_gettime(clock, &time) == 0 else { return nil }
      return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
  }
#endif
