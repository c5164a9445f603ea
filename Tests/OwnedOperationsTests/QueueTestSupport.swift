import Foundation
import Testing

@testable import OwnedOperations

/// Runs the body on a thread of its own.
/// - Returns: false if it has not returned after a time that is long beyond doubt: it hangs.
func returns(_ body: @escaping @Sendable () -> Void) -> Bool {
  let done = DispatchSemaphore(value: 0)
  Thread.detachNewThread {
    body()
    done.signal()
  }
  return done.wait(timeout: .now() + 60) == .success
}

/// Waits for something that is bound to come.
/// - Returns: false if it has not come after a time that is long beyond doubt.
func eventually(_ hasCome: @escaping @Sendable () -> Bool) -> Bool {
  returns { while !hasCome() { usleep(500) } }
}

extension DispatchSemaphore {
  /// False if the signal has not come after a time that is long beyond doubt.
  func waitUntilSignalled() -> Bool { wait(timeout: .now() + 60) == .success }
}

extension OwnerScopedQueue {
  /// `waitUntilAllOperationsAreFinished`, for tests that have to fail instead of hanging.
  func becomesIdle() -> Bool { returns { self.waitUntilAllOperationsAreFinished() } }
}

/// Work that has begun, and goes on until it is told to end.
final class Gate: Sendable {
  private let begun = DispatchSemaphore(value: 0)
  private let opened = DispatchSemaphore(value: 0)

  /// For the work.
  func pass() {
    begun.signal()
    opened.wait()
  }

  /// For the test.
  func hasBegun() -> Bool { begun.waitUntilSignalled() }
  func hasBegun(within time: DispatchTimeInterval) -> Bool { begun.wait(timeout: .now() + time) == .success }
  func open() { opened.signal() }
}

/// Something that happens once, for threads and tasks that wait for it.
final class Event: Sendable {
  private let lock = Lock()
  // Guarded by `lock`.
  nonisolated(unsafe) private var hasHappened = false
  nonisolated(unsafe) private var waiting: [CheckedContinuation<Void, Never>] = []

  var isPast: Bool { lock.withLock { hasHappened } }

  func happen() {
    let continuations = lock.withLock {
      hasHappened = true
      defer { waiting = [] }
      return waiting
    }
    for continuation in continuations { continuation.resume() }
  }

  func happens() -> Bool { eventually { self.isPast } }

  func awaited() async {
    await withCheckedContinuation { continuation in
      let isPast = lock.withLock {
        if !hasHappened { waiting.append(continuation) }
        return hasHappened
      }
      if isPast { continuation.resume() }
    }
  }
}

/// Runs a closure when it goes.
final class DeinitProbe: Sendable {
  private let body: @Sendable () -> Void
  init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  deinit { body() }

  /// For closures that capture it and are to be released without having run.
  func mustNotRun() { Issue.record("has run") }
}

/// A weak reference that closures may capture.
final class Weakly<Object: AnyObject & Sendable>: @unchecked Sendable {  // written by one thread, before it is shared
  weak var object: Object?
}

/// Counts what is there, from any thread, and knows when nothing is left.
final class LiveCount: Sendable {
  private let lock = Lock()
  // Guarded by `lock`.
  nonisolated(unsafe) private var count = 0
  nonisolated(unsafe) private var waiter: DispatchSemaphore?

  var value: Int { lock.withLock { count } }

  func add(_ amount: Int = 1) {
    lock.withLock {
      count += amount
      guard count == 0 else { return }
      waiter?.signal()
      waiter = nil
    }
  }

  /// An object that counts until it goes.
  func makeMember() -> DeinitProbe {
    add()
    return DeinitProbe { self.add(-1) }
  }

  /// Returns when nothing is left, which others are about to see to. For one thread at a time.
  /// - Returns: false if it doesn't come about.
  func becomesZero() -> Bool {
    let semaphore = DispatchSemaphore(value: 0)
    let isZero = lock.withLock {
      if count > 0 { waiter = semaphore }
      return count <= 0
    }
    return isZero || semaphore.waitUntilSignalled()
  }
}

/// Signalled when the object goes.
func goodbye<Object: AnyObject>(of object: Object) -> DispatchSemaphore {
  let semaphore = DispatchSemaphore(value: 0)
  onDeinit(of: object) { _, _ in semaphore.signal() }
  return semaphore
}
