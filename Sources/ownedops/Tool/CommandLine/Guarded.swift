import Foundation

/// A value behind a lock, for what threads share.
final class Guarded<Value>: @unchecked Sendable {  // `value` is touched under `lock` only
  private let lock = NSLock()
  private var value: Value

  init(_ value: Value) { self.value = value }

  func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
    lock.lock()
    defer { lock.unlock() }
    return try body(&value)
  }
}
