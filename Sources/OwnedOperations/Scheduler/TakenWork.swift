/// Work items that were taken out of a queue to be released outside its lock.
final class TakenWork {
  private var list: WorkList

  init(_ list: consuming WorkList) { self.list = list }

  /// Releases the items in the background, one by one: what they captured may have deinits of the user's.
  func release() {
    if list.count == 0 { return }
    var released = WorkList()
    swap(&released, &list)
    let work = ReleasedWork(released)
    if Mutation.capturesGoWhereTheyAreTakenOut.isOn || Mutation.capturesGoUnderTheLock.isOn {
      for index in 0..<work.count { work.release(index) }
    } else {
      DeferredReleases.add(RelaySteps(count: work.count) { index in work.release(index) })
    }
  }

  func visit(_ body: (borrowing WorkItem) -> Void) { list.visit(body) }

  var count: Int { list.count }

  /// Pieces of a record that are among the items.
  struct Pieces {
    fileprivate let record: any WorkRecord
    fileprivate var numbers: [UInt32]

    /// Has the record cancel them. Outside locks; may wake somebody, and so call an executor of the user's.
    func cancel() { record.itemsWereTakenOut(numbers) }
  }

  /// Those of one record that follow each other are together. The references may come to be the last to the records.
  func appendPieces(to pieces: inout [Pieces]) {
    visit { work in
      guard let (record, number) = work.piece, record.account == .pieces else { return }
      if let last = pieces.indices.last, pieces[last].record === record {
        pieces[last].numbers.append(number)
      } else {
        pieces.append(Pieces(record: record, numbers: [number]))
      }
    }
  }

  /// How many of the items are the work that they stand for, and are to be counted. Linear.
  var jobCount: Int {
    var count = 0
    list.visit { if !$0.account.countsItself { count += 1 } }
    return count
  }
}

/// Work items to be released one by one. Each belongs to whoever claims its index.
private final class ReleasedWork: Sendable {
  let count: Int
  /// The first item of each chunk, and its index.
  private let runs: [(start: Int, items: BorrowedStorage<WorkItem>)]
  private let list: SharedCell<WorkList>  // keeps the chunks, and is not touched any more

  init(_ list: consuming WorkList) {
    count = list.count
    var runs: [(start: Int, items: BorrowedStorage<WorkItem>)] = []
    var start = 0
    list.visitChunks { items, count in
      runs.append((start, BorrowedStorage(items)))
      start += count
    }
    list.forgetItems()
    self.runs = runs
    self.list = SharedCell(list)
  }

  func release(_ index: Int) {
    var (low, high) = (0, runs.count)
    while high - low > 1 {
      let middle = (low + high) / 2
      if runs[middle].start <= index { low = middle } else { high = middle }
    }
    (runs[low].items.start + (index - runs[low].start)).deinitialize(count: 1)
  }
}
