/// Whether a request uses its client's ``ResponseCache``. Only answers to GET with status 200 are ever stored, never those that say
/// `no-store` or `Vary: *`. Answers to requests with credentials are stored only where ``Request/cachesCredentials`` asks for it. An answer
/// with `no-store` removes what was stored for the same request before.
public enum CachePolicy: Sendable, Hashable {
  /// Neither read nor stored.
  case none
  /// What was stored less than this long ago is the answer, without asking the server.
  case forTime(Duration)
  /// The server is asked whether what is stored is still valid (by `ETag` or `Last-Modified`). If so, it is the answer, with the source
  /// ``ResponseSource/revalidated``.
  case revalidate
  /// What is stored is the first answer, the server's the second. Handlers are called twice, told apart by ``Response/source``. Tasks get
  /// the first, and the second still refreshes the cache, under the lifetime of the owner.
  case cachedThenFresh
}
