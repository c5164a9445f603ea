import Foundation

/// A task that sleeps: ended once, by the clock or by its cancellation.
final class Sleeper: @unchecked Sendable {  // guarded by `lock`
  private let lock = NSLock()
  private var continuation: CheckedContinuation<Void, any Error>?
  private var result: Result<Void, any Error>?

  var isOver: Bool { lock.withLock { result != nil } }

  /// - Returns: whether it sleeps. If not, it was cancelled before, and goes on.
  func begin(_ new: CheckedContinuation<Void, any Error>) -> Bool {
    let early = lock.withLock {
      if result == nil { continuation = new }
      return result
    }
    if let early { new.resume(with: early) }
    return early == nil
  }

  /// The first call counts.
  func end(_ new: Result<Void, any Error>) {
    let sleeping = lock.withLock { () -> CheckedContinuation<Void, any Error>? in
      guard result == nil else { return nil }
      result = new
      return continuation.take()
    }
    sleeping?.resume(with: new)
  }
}
