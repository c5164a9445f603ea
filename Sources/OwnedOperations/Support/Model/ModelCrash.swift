#if OWNED_OPERATIONS_MODEL
  import Glibc

  /// A crash of a thread of a run fails the run, as anything else does that is found. It is told with the run's decisions, and can be
  /// repeated with a trace. The thread stays where it is.
  ///
  /// What crashes elsewhere, or by a signal that isn't caught, ends the process.
  enum ModelCrash {
    /// Not `SIGABRT`: the C library raises it while it holds locks of its own.
    private static let signals = [SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE]
    /// The telling may meet a lock that the thread has, of the allocator for example. Then the process ends after so many seconds.
    private static let secondsToTell: UInt32 = 30

    private static let isCaught: Void = {
      for number in signals {
        _ = Glibc.signal(number) { number in
          guard let run = ModelRun.current, let thread = ModelRun.thread else {
            _ = Glibc.signal(number, SIG_DFL)
            return
          }
          alarm(secondsToTell)
          run.fail(.crash(signal: number, thread: thread.description))
        }
      }
    }()

    static func beginRun() {
      _ = isCaught
      alarm(0)
    }
  }
#endif
