import Synchronization

@testable import OwnedOperations

final class TokenOwner: OperationOwner, Sendable {
  let lifetimeToken: OwnerLifetime.Token

  init(name: String? = nil, parent: OwnerLifetime? = nil) {
    lifetimeToken = OwnerLifetime.Token(name: name, parent: parent)
  }
}

/// What happened, in order, from any thread.
final class Journal<Entry: Sendable>: Sendable {
  private let lock = Lock()
  nonisolated(unsafe) private var written: [Entry] = []  // guarded by `lock`

  func write(_ entry: Entry) { lock.withLock { written.append(entry) } }
  var entries: [Entry] { lock.withLock { written } }
}

/// A value that any thread may read and write.
final class Mutexed<Value: Sendable>: Sendable {
  private let lock = Lock()
  nonisolated(unsafe) private var stored: Value  // guarded by `lock`

  init(_ value: Value) { stored = value }

  var value: Value {
    get { lock.withLock { stored } }
    set {
      var former = newValue
      lock.withLock { swap(&former, &stored) }  // the former value goes outside the lock
    }
  }
}

/// Counts, from any thread.
final class Counter: Sendable {
  private let count = Atomic<Int>(0)

  var value: Int { count.load(ordering: .acquiring) }
  func add(_ amount: Int = 1) { count.add(amount, ordering: .acquiringAndReleasing) }
}
