/// Work items that were taken out of a queue to be released outside its lock.
final class TakenWork {
  private var list: WorkList

  init(_ list: consuming WorkList) { self.list = list }

  /// Releases the items in the background, one by one: what they captured may have deinits of the user's.
  func release() {
    var released = WorkList()
    swap(&released, &list)
    let work = ReleasedWork(released)
    if Mutation.capturesGoWhereTheyAreTakenOut.isOn || Mutation.capturesGoUnderTheLock.isOn {
      for index in 0..<work.count { work.takeStep(index) }
    } else {
      DeferredReleases.add(work)
    }
  }

  func visit(_ body: (borrowing WorkItem) -> Void) { list.visit(body) }

  var count: Int { list.count }

  /// Calls `body` with the nodes among the items, those of one run that follow each other together.
  private func forEachRun(_ body: (any NodeRun, [UInt32]) -> Void) {
    var current: (any NodeRun)?
    var nodes: [UInt32] = []
    visit { work in
      guard let (run, number) = work.node else { return }
      if let current, current !== run {
        body(current, nodes)
        nodes = []
      }
      current = run
      nodes += run.nodes(of: number)
    }
    if let current { body(current, nodes) }
  }

  /// Has runs cancel the nodes among the items. Outside locks.
  func cancelNodes() { forEachRun { run, nodes in run.itemsWereTakenOut(nodes) } }

  /// Without the operations and nodes, which count themselves. Linear.
  var jobCount: Int {
    var count = 0
    list.visit { if !$0.kind.countsItself { count += 1 } }
    return count
  }
}

/// Work items to be released one by one. Each belongs to whoever claims its index.
private final class ReleasedWork: RelayBatch, @unchecked Sendable {  // constants, and memory of which each part is one claimer's
  private let list: WorkList
  /// The first item of each chunk, and its index.
  private var runs: [(start: Int, items: UnsafeMutablePointer<WorkItem>)] = []

  init(_ list: consuming WorkList) {
    let count = list.count
    self.list = list
    super.init(count: count)
    var start = 0
    self.list.visitChunks { items, count in
      runs.append((start, items))
      start += count
    }
    self.list.forgetItems()
  }

  override func takeStep(_ index: Int) {
    var (low, high) = (0, runs.count)
    while high - low > 1 {
      let middle = (low + high) / 2
      if runs[middle].start <= index { low = middle } else { high = middle }
    }
    (runs[low].items + (index - runs[low].start)).deinitialize(count: 1)
  }
}
