#if !OWNED_OPERATIONS_MODEL
  import COwnedOperations
  import Foundation

  /// Passing a little time while another thread is about to do something.
  enum Pause {
    /// Whether something may happen meanwhile: others go on at the same time.
    static let passesTime = ProcessInfo.processInfo.activeProcessorCount > 1

    /// Takes between ten and fifty nanoseconds a round on today's processors.
    @inline(__always)  // one instruction
    static func spin(_ rounds: Int) {
      for _ in 0..<rounds { coo_pause() }
    }

    /// Gives the processor to another thread that wants one. Who looks for something again and again has to: else it keeps those from it
    /// that are to bring it about, wherever more threads are busy than there are processors. Some hundred nanoseconds if nobody wants it;
    /// if somebody does, a time slice. So not where somebody's call waits for it: a lock.
    static func giveWay() { sched_yield() }
  }
#endif
