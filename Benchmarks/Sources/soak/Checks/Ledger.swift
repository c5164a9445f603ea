import Foundation
import Synchronization

/// What a run counts and finds out. Any thread.
final class Ledger: Sendable {
  let operations = Atomic<Int>(0)
  let owners = Atomic<Int>(0)
  /// Tallies whose bodies have not all been released.
  let live = Atomic<Int>(0)

  private let lock = NSLock()
  nonisolated(unsafe) private var latencies = Latencies()  // guarded by `lock`
  nonisolated(unsafe) private var failures: [String] = []  // guarded by `lock`
  private let failureCount = Atomic<Int>(0)
  private static let mostKept = 20

  var failed: Int { failureCount.load(ordering: .relaxed) }

  func report(_ failure: String) {
    failureCount.add(1, ordering: .relaxed)
    lock.withLock { if failures.count < Self.mostKept { failures.append(failure) } }
  }

  /// The first ones.
  var reports: [String] { lock.withLock { failures } }

  func add(_ ends: Latencies) { lock.withLock { latencies.add(ends) } }

  var ends: Latencies { lock.withLock { latencies } }

  /// Changes as long as anything goes on.
  var beat: Int {
    operations.load(ordering: .relaxed) &+ owners.load(ordering: .relaxed) &- live.load(ordering: .relaxed)
  }
}
