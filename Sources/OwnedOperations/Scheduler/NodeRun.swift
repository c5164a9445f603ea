/// A record whose pieces depend on each other, as far as the scheduler knows it: a run of a graph. Its queue keeps it until it has
/// finished.
///
/// A number stands for a node or for a bundle of nodes; see `GraphRun`.
protocol NodeRun: WorkRecord {
  /// Marks the nodes as lying in a ready list, where their items will be. Under the queue's lock.
  /// - Returns: false if nodes of their owner have been cancelled: nobody would take them out of the list.
  func list(_ nodes: ContiguousArray<UInt32>) -> Bool

  /// Cancels nodes that have not begun. Outside locks.
  /// - Parameter lifetime: whose; nil for all.
  func cancelNodes(ownedBy lifetime: OwnerLifetime?)

  /// Nothing will ever start any more.
  func queueIsGone()
}

extension NodeRun {
  var account: WorkAccount { .pieces }
}
