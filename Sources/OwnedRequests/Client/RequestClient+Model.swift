#if OWNED_OPERATIONS_MODEL
  import Foundation
  import OwnedOperations

  #if canImport(FoundationNetworking)
    import FoundationNetworking
  #endif

  /// Stands in for the client in the model build: what is done in the background, and when a timer goes off, is the scenario's affair.
  final class RequestClient: Sendable {
    let hub: TransferHub
    let downloadSessions: any SessionSource
    let cache: ResponseCache?
    let interceptors: [any RequestInterceptor] = []
    private let background: @Sendable (@escaping @Sendable () -> Void) -> Void
    private let timers: @Sendable (OneShotTimer.Call) -> Void

    init(
      session: TransferSession, limits: HostLimits, cache: ResponseCache?,
      background: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void, timers: @escaping @Sendable (OneShotTimer.Call) -> Void
    ) {
      hub = TransferHub(session: session, limits: limits)
      downloadSessions = session
      self.cache = cache
      self.background = background
      self.timers = timers
    }

    func prepare(_ request: Request) throws(RequestError) -> PreparedRequest { try request.prepare(relativeTo: nil) }
    func cookies(for outgoing: Outgoing) -> String? { nil }
    func cookies(for url: URL) -> String? { nil }
    func register(_ request: any RegisteredRequest) {}
    func unregister(_ id: ObjectIdentifier, of owner: OwnerID) {}

    func inBackground(_ body: @escaping @Sendable () -> Void) { background(body) }
    func endInBackground(_ body: @escaping @Sendable () -> Void) { background(body) }

    func timer(after delay: Duration, _ body: @escaping @Sendable () -> Void) -> OneShotTimer {
      let timer = OneShotTimer(after: delay, body)
      timers(timer.call)
      return timer
    }
  }

  final class OneShotTimer: Sendable {
    /// Made once, unless the timer is cancelled or let go of before.
    final class Call: Sendable {
      let delay: Duration
      private let body: Guarded<Body?>

      /// See `Guarded` for why it is not the closure itself.
      private struct Body {
        let call: @Sendable () -> Void
      }

      fileprivate init(_ delay: Duration, _ body: @escaping @Sendable () -> Void) {
        self.delay = delay
        self.body = Guarded(Body(call: body))
      }

      private func take() -> Body? {
        var former: Body?
        body.withLock { swap(&former, &$0) }
        return former
      }

      var isSet: Bool { body.withLock { $0 != nil } }

      func make() { take()?.call() }
      fileprivate func drop() { _ = take() }
    }

    let call: Call

    fileprivate init(after delay: Duration, _ body: @escaping @Sendable () -> Void) { call = Call(delay, body) }

    func cancel() { call.drop() }

    deinit { call.drop() }
  }
#endif
