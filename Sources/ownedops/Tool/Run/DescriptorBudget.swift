import Foundation
import OwnedOperations

/// Lets no more jobs run at a time than there are descriptors for. Each needs one for its pipe, one for its output when that grows, and one
/// for its log. Output that waits in a file to be printed keeps its descriptor, and there is room for one job fewer.
final class DescriptorBudget: Sendable {
  /// For standard descriptors, pictures, the guard, the pump, what the system's libraries use, and commands being started.
  private static let reserve = 40

  /// Of these what a run with one job at a time takes, however little it does.
  private static let fewest = 16

  private struct State {
    var held = 0
  }

  private let queue: OwnerScopedQueue
  private let most: Int
  private let wanted: Int
  private let state = Guarded(State())

  /// - Returns: how many jobs there is room for, and at least one.
  static func mostJobs(wanted: Int, logs: Bool) -> Int { min(wanted, room(logs: logs)) }

  private static func room(logs: Bool) -> Int {
    let limit = DescriptorLimit.current
    return limit == .max ? .max : max(1, (limit - reserve) / (logs ? 3 : 2))
  }

  /// Whether there are as many as are needed for anything. The system's libraries wait for ever for one that they can't have, or crash.
  static func check() throws(UsageError) {
    var taken: [Int32] = []
    defer { for descriptor in taken { close(descriptor) } }
    while taken.count < fewest {
      let descriptor = fcntl(0, F_DUPFD_CLOEXEC, 0)
      guard descriptor >= 0 else {
        throw UsageError("run: the system has \(taken.count) descriptors to give, and \(fewest) are needed; see ulimit -n")
      }
      taken.append(descriptor)
    }
  }

  init(_ queue: OwnerScopedQueue, wanted: Int, logs: Bool) {
    self.queue = queue
    self.wanted = wanted
    most = Self.room(logs: logs)
  }

  /// An output that is in a file has ended and waits for its printing.
  func hold() { change(by: 1) }

  /// It has been printed.
  func letGo() { change(by: -1) }

  private func change(by difference: Int) {
    // Under the lock, so that the last count is the last to be set.
    state.withLock { state in
      let before = limit(state)
      state.held += difference
      if limit(state) != before { queue.maxConcurrentOperationCount = limit(state) }
    }
  }

  private func limit(_ state: State) -> Int { max(0, min(wanted, most - state.held)) }
}
