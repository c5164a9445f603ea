import Synchronization

/// Ready nodes of a graph that a worker is going to run itself. Others can take them from it: to run them while the worker is busy or
/// blocked, or to cancel them.
///
/// All of them have one source. They are in the worker's hand (see `GraphRun`), in no ready list, and not begun. Only the worker puts nodes
/// in. The queue's lock may be held when `lock` is taken, not the other way round.
final class NodeStack {
  static let capacity = 256
  private static let fewest = 8

  private let lock = Lock()
  /// Changed under `lock`; read without it as a hint, and by the worker, who knows that others only take.
  private let countHint = Atomic<Int>(0)

  // Guarded by `lock`.
  /// Room for a few at first: most workers never see a graph.
  private var nodes = RawStorage<UInt32>(capacity: fewest)
  private var room = fewest
  private var count = 0
  private var source: Source?

  /// Where nodes come from, and go back to.
  struct Source {
    /// One that has not finished is kept by its queue.
    unowned(unsafe) let run: any NodeRun
    let ownerQueue: Borrowed<OwnerQueue>
    let level: Int
  }

  var isEmpty: Bool { countHint.load(ordering: .relaxed) == 0 }

  /// - Returns: false if the stack is full.
  @inline(__always)  // for each node
  func push(_ node: UInt32, of source: Source) -> Bool {
    lock.lock()
    guard count < room || makeRoom() else {
      lock.unlock()
      return false
    }
    self.source = source
    nodes[count] = node
    count += 1
    countHint.store(count, ordering: .relaxed)
    lock.unlock()
    return true
  }

  @inline(never)
  private func makeRoom() -> Bool {
    guard room < Self.capacity else { return false }
    let larger = RawStorage<UInt32>(capacity: Self.capacity)
    larger.start.initialize(from: nodes.start, count: count)
    nodes = larger
    room = Self.capacity
    return true
  }

  @inline(__always)  // for each node
  func pop() -> UInt32? {
    guard !isEmpty else { return nil }
    lock.lock()
    defer { lock.unlock() }
    guard count > 0 else { return nil }
    count -= 1
    countHint.store(count, ordering: .relaxed)
    return nodes[count]
  }

  /// Takes the nodes out, the one to be run next first.
  /// - Parameter leavesHalf: takes only those that were to be run last.
  func take(leavesHalf: Bool = false) -> (source: Source, nodes: ContiguousArray<UInt32>)? {
    guard !isEmpty else { return nil }
    return lock.withLock {
      guard count > 0, let source else { return nil }
      let taken = leavesHalf ? (count + 1) / 2 : count
      let result = ContiguousArray(UnsafeBufferPointer(start: nodes.start, count: taken).reversed())
      count -= taken
      for index in 0..<count { nodes[index] = nodes[index + taken] }
      countHint.store(count, ordering: .relaxed)
      return (source, result)
    }
  }
}
