#if OWNED_OPERATIONS_MODEL
  @testable import OwnedOperations
#else
  import Foundation
#endif

/// State behind a lock that ThreadSanitizer sees. No code of the user's runs under it, no deinit included: replaced values are handed
/// out and go outside. Not a function itself, but a structure that has it: each look would wrap it in two more thunks.
final class Guarded<State>: @unchecked Sendable {  // `state` is touched under `lock` only
  #if OWNED_OPERATIONS_MODEL
    // One that the model checker knows.
    private let lock = Lock()
  #else
    private let lock = NSLock()
  #endif
  private var state: State

  init(_ state: State) { self.state = state }

  func withLock<Result, Failure: Error>(_ body: (inout State) throws(Failure) -> Result) throws(Failure) -> Result {
    lock.lock()
    defer { lock.unlock() }
    return try body(&state)
  }
}
