import Foundation

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// What the cache has to do with one attempt of a request.
struct CachePlan: Sendable {
  let cache: ResponseCache
  let policy: CachePolicy
  let key: TransferKey
  /// Those that go along with the request.
  let cookies: String?
  /// Nil, too, if the request doesn't accept it.
  let stored: CachedResponse?
  /// The cache's generation. What is removed from the cache afterwards does not come back by this request.
  private let generation: Int

  /// Nil if the cache has nothing to do with it.
  /// - Parameter looksInFiles: which takes time.
  init?(_ request: Request, _ outgoing: Outgoing, _ client: RequestClient, looksInFiles: Bool = true) {
    guard let cache = client.cache, request.cache != .none, outgoing.urlRequest.httpMethod == "GET" else { return nil }
    let cookies = client.cookies(for: outgoing)
    guard request.cachesCredentials || cookies == nil && !outgoing.hasCredentials else { return nil }
    let headers = HeaderFields(outgoing.urlRequest.allHTTPHeaderFields ?? [:])
    // A part of an answer, and an answer to a question of the caller's own, are not what others want.
    guard headers["Range"] == nil, headers["If-None-Match"] == nil, headers["If-Modified-Since"] == nil, !Self.forbidsStoring(headers)
    else { return nil }
    self.cache = cache
    policy = request.cache
    self.cookies = cookies
    key = TransferKey(outgoing.urlRequest, cookies: cookies)
    generation = cache.generation
    let found = looksInFiles ? cache.response(for: key) : cache.responseInMemory(for: key)
    stored = found.flatMap { request.acceptedStatus.contains($0.head.status) ? $0 : nil }
  }

  /// What is stored, if no server has to be asked.
  var answer: CachedResponse? {
    guard case .forTime(let time) = policy, let stored, Duration.seconds(Date().timeIntervalSince(stored.storedAt)) < time else {
      return nil
    }
    // A clock that was set back makes nothing fresh for ever.
    return stored.storedAt.timeIntervalSinceNow < 60 ? stored : nil
  }

  /// What to show before the server answers.
  var preview: CachedResponse? { policy == .cachedThenFresh ? stored : nil }

  func adapt(_ outgoing: inout Outgoing) {
    if case .forTime = policy { return }
    outgoing.validators = stored?.validators
    outgoing.validators?.apply(to: &outgoing.urlRequest)
  }

  /// - Returns: what the server's answer makes of what is stored, if it says that it is still valid.
  func revalidated(by exchange: Exchange, isStored: Bool = true) -> CachedResponse? {
    let head = exchange.head
    guard head.status == 304, case let stored? = stored, Validators.address(stored.head.url) == Validators.address(head.url) else {
      return nil
    }
    let fresh = stored.refreshed(by: head, now: Date())
    if Self.forbidsStoring(exchange) { forget() } else if isStored { cache.store(fresh, for: key, ifStill: generation) }
    return fresh
  }

  func store(_ exchange: Exchange) {
    // Nor is an answer kept that came before the server said so. Of an error it says so of that alone.
    if Self.forbidsStoring(exchange) {
      if (200..<300).contains(exchange.head.status) { forget() }
      return
    }
    guard exchange.head.status == 200, exchange.head.headers["Vary"]?.contains("*") != true else { return }
    let now = Date()
    var entry = CachedResponse(head: exchange.head, body: exchange.body, storedAt: now)
    switch policy {
    case .forTime(let time):
      entry.expiresAt = now.addingTimeInterval(time.inSeconds)
    case .revalidate: guard entry.validators != nil else { return }
    case .cachedThenFresh, .none: break
    }
    cache.store(entry, for: key, ifStill: generation)
  }

  private func forget() { cache.remove(key, ifStill: generation) }

  /// Nor may an answer be stored that a redirect has led to which is not to be stored itself.
  private static func forbidsStoring(_ exchange: Exchange) -> Bool {
    forbidsStoring(exchange.head.headers) || exchange.redirects.contains { forbidsStoring($0.headers) }
  }

  private static func forbidsStoring(_ headers: HeaderFields) -> Bool {
    headers["Cache-Control"]?.lowercased().split(separator: ",").contains { $0.trimmingCharacters(in: .whitespaces) == "no-store" } ?? false
  }
}
