/// Work that comes in numbered pieces which depend on each other, as far as the scheduler knows it: a run of a graph.
///
/// A number stands for a node or for a bundle of nodes; see `GraphRun`.
protocol NodeRun: AnyObject, Sendable {
  /// Whether a work item of the node that lies in a ready list would still come to something. Under the queue's lock.
  func isListed(_ number: UInt32) -> Bool

  /// Marks the nodes as lying in a ready list, where their items will be. Under the queue's lock.
  /// - Returns: false if nodes of their owner have been cancelled: nobody would take them out of the list.
  func list(_ nodes: ContiguousArray<UInt32>) -> Bool

  /// The nodes that a number stands for.
  func nodes(of number: UInt32) -> ContiguousArray<UInt32>

  /// On a worker that has begun the item.
  func run(from number: UInt32, on worker: AnyObject)

  /// Cancels nodes that have not begun. Outside locks.
  /// - Parameter lifetime: whose; nil for all.
  func cancelNodes(ownedBy lifetime: OwnerLifetime?)

  /// The items of these nodes have been taken out of the ready lists: they are cancelled. Outside locks.
  func itemsWereTakenOut(_ nodes: [UInt32])

  /// Nothing will ever start any more.
  func queueIsGone()
}
