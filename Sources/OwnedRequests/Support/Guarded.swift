import Foundation

/// State behind a lock that ThreadSanitizer sees. No code of the user's runs under it, no deinit included: replaced values are handed
/// out and go outside.
final class Guarded<State>: @unchecked Sendable {  // `state` is touched under `lock` only
  private let lock = NSLock()
  private var state: State

  init(_ state: State) { self.state = state }

  func withLock<Result, Failure: Error>(_ body: (inout State) throws(Failure) -> Result) throws(Failure) -> Result {
    lock.lock()
    defer { lock.unlock() }
    return try body(&state)
  }
}
