import Foundation

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// What makes two requests equal: method, URL, and headers, as interceptors have left them.
struct TransferKey: Hashable, Sendable {
  let method: String
  let url: String
  let headers: HeaderFields
  /// What is stored, to those who ask whether it is still valid.
  let validators: Validators?

  /// - Parameter cookies: those that go along with the request, beside those in it.
  init(_ urlRequest: URLRequest, cookies: String? = nil, validators: Validators? = nil) {
    method = urlRequest.httpMethod ?? "GET"
    url = urlRequest.url?.absoluteString ?? ""
    var headers = HeaderFields(urlRequest.allHTTPHeaderFields ?? [:])
    if let cookies { headers["Cookie"] = headers["Cookie"].map { "\($0); \(cookies)" } ?? cookies }
    self.headers = headers
    self.validators = validators
  }
}

/// The transfers of a client: begins them, and lets equal ones be one.
///
/// `shared` holds transfers that may still be joined, and for a moment longer ones that are over: those take no subscriber and are
/// replaced. Order of locks: `shared`, then a transfer's.
final class TransferHub: Sendable {
  private let session: TransferSession
  let limits: HostLimits
  private let shared = Guarded<[TransferKey: Transfer]>([:])

  init(session: TransferSession, limits: HostLimits) {
    self.session = session
    self.limits = limits
  }

  /// Where to unsubscribe.
  struct Place: Sendable {
    let transfer: Transfer
    let id: Int

    func leave() { transfer.unsubscribe(id) }
  }

  /// Begins a transfer, or joins one that is in line or under way.
  /// - Parameters:
  ///   - key: nil if the transfer is for this subscriber alone.
  ///   - sessions: where it gets a session from once it has its turn; by default the client's one.
  func subscribe(
    _ subscriber: any TransferSubscriber, attempt: Int, to outgoing: Outgoing, key: TransferKey?, priority: Operation.QueuePriority,
    sink: (any TransferSink)? = nil, sessions: (any SessionSource)? = nil
  ) -> Place? {
    let make = { [self] in
      Transfer(outgoing, sessions: sessions ?? session, limits: limits, priority: priority, sink: sink) { [weak self] transfer in
        self?.forget(transfer, key)
      }
    }
    guard let key else {
      let transfer = make()
      guard let (id, _) = transfer.subscribe(subscriber, attempt: attempt) else { return nil }
      transfer.begin()
      return Place(transfer: transfer, id: id)
    }
    var isNew = false
    let joined = shared.withLock { shared -> (Place, hasBegun: Bool)? in
      if let transfer = shared[key], let (id, hasBegun) = transfer.subscribe(subscriber, attempt: attempt) {
        return (Place(transfer: transfer, id: id), hasBegun)
      }
      let transfer = make()
      guard let (id, _) = transfer.subscribe(subscriber, attempt: attempt) else { return nil }
      isNew = true
      shared[key] = transfer
      return (Place(transfer: transfer, id: id), false)
    }
    guard let (place, hasBegun) = joined else { return nil }
    if isNew { place.transfer.begin() } else { place.transfer.raise(to: priority) }
    if hasBegun { subscriber.transferDidBegin(attempt: attempt) }
    return place
  }

  /// For tests: how many wait for transfers that may be joined.
  var sharerCount: Int { shared.withLock { $0.values.reduce(0) { $0 + $1.subscriberCount } } }

  private func forget(_ transfer: Transfer, _ key: TransferKey?) {
    guard let key else { return }
    var former: Transfer?
    shared.withLock { shared in
      if shared[key] === transfer { former = shared.removeValue(forKey: key) }
    }
    withExtendedLifetime(former) {}
  }
}
