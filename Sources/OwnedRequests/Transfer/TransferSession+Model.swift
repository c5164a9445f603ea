#if OWNED_OPERATIONS_MODEL
  import Foundation

  #if canImport(FoundationNetworking)
    import FoundationNetworking
  #endif

  /// Stands in for `URLSession` in the model build: what becomes of a task is the scenario's affair.
  final class TransferSession: Sendable {
    private let didResume: @Sendable (SessionTask) -> Void

    init(didResume: @escaping @Sendable (SessionTask) -> Void) { self.didResume = didResume }

    func task(for urlRequest: URLRequest, body: RequestBody, receiver: any SessionTaskReceiver) -> SessionTask {
      SessionTask(receiver, didResume)
    }
  }

  final class SessionTask: Sendable {
    /// Nil once the task is over or cancelled.
    private let current: Guarded<(any SessionTaskReceiver)?>
    private let didResume: @Sendable (SessionTask) -> Void

    fileprivate init(_ receiver: any SessionTaskReceiver, _ didResume: @escaping @Sendable (SessionTask) -> Void) {
      current = Guarded(receiver)
      self.didResume = didResume
    }

    func resume() { didResume(self) }
    func cancel() { _ = takeReceiver() }

    var receiver: (any SessionTaskReceiver)? { current.withLock { $0 } }

    func takeReceiver() -> (any SessionTaskReceiver)? {
      var former: (any SessionTaskReceiver)?
      current.withLock { swap(&former, &$0) }
      return former
    }
  }
#endif
