/// A queue, weakly: for those who may outlive it. Unlike `weak`, it leaves the queue's count of references where every use of the queue finds it quickly.
final class QueueReference: Sendable {
  nonisolated(unsafe) private let memory: MemoryReference  // constant; asked while the memory that it holds is there

  init(_ queue: OwnerScopedQueue) { memory = MemoryReference(queue) }

  var queue: OwnerScopedQueue? { memory.retained().map { unsafeDowncast($0, to: OwnerScopedQueue.self) } }
}
