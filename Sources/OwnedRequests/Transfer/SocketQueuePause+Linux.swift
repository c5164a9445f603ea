#if canImport(FoundationNetworking)
  import COwnedOperations

  /// Has the queue on which a session works at its sockets pause, for as long as this lives. Nothing is read from them meanwhile, and the
  /// sessions of the process get their turn.
  ///
  /// Why: all sessions' queues end in one serial queue (swift-corelibs-foundation, Swift 6.3). A session whose bytes come faster than it
  /// reads them asks libcurl for more from within its own queue, again and again. And Dispatch stays with a queue that has work. So one
  /// session keeps the thread for seconds, and not even the cancellation of its own task gets through. Dispatch leaves a suspended queue
  /// when the work under way is done. The session's other queues, which begin and cancel tasks, are not suspended.
  final class SocketQueuePause: Sendable {
    /// What swift-corelibs-foundation calls it. Under another name there is no pause, and who asks for one has to do without.
    private static let label = "MultiHandle.isolation"

    private let queue: UInt

    /// Nil if this thread isn't at work for such a queue.
    init?() {
      queue = coo_pause_current_queue(Self.label)
      if queue == 0 { return nil }
    }

    deinit { if queue != 0 { coo_resume_queue(queue) } }
  }
#endif
