import Foundation
import OwnedOperations
import Synchronization

final class Log: @unchecked Sendable {  // guarded by `lock`
  private let lock = NSLock()
  private var guarded: [String] = []

  var lines: [String] { lock.withLock { guarded } }
  func add(_ line: String) { lock.withLock { guarded.append(line) } }
}

final class Screen: Sendable {
  private let log: Log
  init(_ log: Log) { self.log = log }
  func show(_ text: String) { log.add(text) }
}

/// An asynchronous operation with a body.
final class Asynchronous: OwnedAsyncOperation, @unchecked Sendable {  // `body` is constant
  private let body: @Sendable () async throws -> Void

  init(lifetime: OwnerLifetime, _ body: @escaping @Sendable () async throws -> Void) {
    self.body = body
    super.init(lifetime: lifetime)
  }

  override func run() async throws { try await body() }
}

/// A plain operation that isn't ready until it is opened, and tells nobody.
final class HeldBack: Operation, @unchecked Sendable {  // atomic, or constant
  let isOpen = Atomic<Bool>(false)
  private let log: Log

  init(_ log: Log) { self.log = log }

  override var isReady: Bool { isOpen.load(ordering: .acquiring) && super.isReady }
  override func main() { log.add("held back") }
}

/// Adds itself to its queue each time it runs.
final class Again: Sendable {
  private let queue: OwnerScopedQueue
  private let owner: OwnerLifetime

  init(_ queue: OwnerScopedQueue, _ owner: OwnerLifetime) { (self.queue, self.owner) = (queue, owner) }

  func add() { queue.async(lifetime: owner) { [self] in add() } }
}

/// What a task waits for that no virtual time knows of.
final class Gate: @unchecked Sendable {  // guarded by `lock`
  private let lock = NSLock()
  private var isOpen = false
  private var waiting: CheckedContinuation<Void, Never>?

  func wait() async {
    await withCheckedContinuation { continuation in
      let isOpen = lock.withLock {
        if !self.isOpen { waiting = continuation }
        return self.isOpen
      }
      if isOpen { continuation.resume() }
    }
  }

  func open() {
    let waiting = lock.withLock {
      isOpen = true
      return self.waiting.take()
    }
    waiting?.resume()
  }
}

/// Says when it goes.
final class Probe: Sendable {
  private let log: Log
  init(_ log: Log) { self.log = log }
  deinit { log.add("gone") }
}

/// Holds an object until it is taken.
final class Box<Object: AnyObject & Sendable>: @unchecked Sendable {  // taken once
  private var object: Object?
  init(_ object: Object) { self.object = object }

  func take() -> Object {
    defer { object = nil }
    return object.unsafelyUnwrapped
  }
}
