import Foundation

extension OperationGraph {
  /// Begins a run. Nodes run like jobs of their owners: by priority, with the queue's limits and barriers, and counted in its statistics. A
  /// node that becomes ready may run before work of the same priority that came earlier.
  /// - Returns: the run, to wait for, ask, or cancel. It may be let go. A graph without nodes has finished when this returns.
  /// - Throws: what ``validate()`` throws, and ``OwnerScopedQueueError/ownerEnded(operation:owner:)`` if the owner of the graph has ended.
  /// - Complexity: linear in the nodes and their owners; after an edit of the graph, in the edges, too.
  @discardableResult
  public func run(on queue: OwnerScopedQueue) throws(OwnerScopedQueueError) -> GraphRun {
    let (structure, bodies, policy) = try storage.compiled()
    let lifetime = structure.lifetimes[0]
    guard lifetime.isAlive else { throw .ownerEnded(operation: "the graph", owner: lifetime.id) }
    let run = GraphRun(of: storage, structure, bodies, policy, queue: queue.core)
    if structure.nodeCount > 0 { queue.core.begin(run) } else { run.sinksDidFinish(0, on: nil) }
    return run
  }
}
