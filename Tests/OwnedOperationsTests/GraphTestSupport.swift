import Foundation

@testable import OwnedOperations

/// What nodes throw.
struct NodeFailure: Error, Equatable { let number: Int }

extension GraphRun {
  func reason(of node: OperationGraph.Node) -> CancellationReason? { outcome(of: node)?.reason }
  var kinds: [String?] { outcomes.map { $0?.kind } }
}

extension OwnerScopedQueue.Statistics {
  /// Succeeded, failed, cancelled; and started.
  var ends: [Int] { [succeeded, failed, cancelled, started] }
}

/// At any time.
func addsUp(_ statistics: OwnerScopedQueue.Statistics) -> Bool {
  statistics.enqueued
    == statistics.pending + statistics.executing + statistics.succeeded + statistics.failed + statistics.cancelled
}
