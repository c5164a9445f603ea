import Dispatch

/// A queue, weakly: for those who may outlive it. Unlike `weak`, it leaves the queue's count of references where every use of the queue
/// finds it quickly.
///
/// A queue whose facade is still in use when it goes leaves all it has to an heir (`bequeath`). From then on the reference leads there; who
/// asks while that is being
/// done waits for it, which takes microseconds.
final class QueueReference: Sendable {
  private let memory: MemoryReference  // constant; asked while the memory that it holds is there

  private struct Succession {
    /// Entered from the making of the facade until the queue has gone, and its heir is known.
    var group: DispatchGroup?
    var heir: QueueReference?
  }

  private let succession = Locked(Succession())

  init(_ queue: OwnerScopedQueue) { memory = MemoryReference(queue) }

  var queue: OwnerScopedQueue? { memory.retained().map { unsafeDowncast($0, to: OwnerScopedQueue.self) } ?? heirOfQueue }

  private var heirOfQueue: OwnerScopedQueue? {
    guard let group = succession.withLock({ $0.group }) else { return nil }
    group.wait()
    return succession.withLock { $0.heir }?.queue
  }

  /// The queue may have an heir. Called once, while somebody holds the queue.
  func expectSuccession() {
    let group = DispatchGroup()
    group.enter()
    succession.withLock { $0.group = group }
  }

  /// In the queue's deinit, once, if a succession was expected.
  func settleSuccession(_ heir: OwnerScopedQueue?) {
    let group = succession.withLock { succession in
      succession.heir = heir?.reference
      return succession.group
    }
    group?.leave()
  }
}
