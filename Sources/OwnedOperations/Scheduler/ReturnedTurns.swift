/// A run of tickets of one flow. Guarded by the queue's lock.
struct TicketRun {
  let flow: Flow
  var tickets: Int
  /// When the run began, among all of its run queue: see `RunQueue.makeAge`.
  let age: UInt64
}

/// Entries of a run queue that had been taken out and have come back, the oldest first. Their owner may go on, or a worker has given back
/// what it had taken. A heap, because they come back in any order, and those of many owners may do so one by one.
struct ReturnedTurns {
  private var heap: [TicketRun] = []

  var isEmpty: Bool { heap.isEmpty }
  var count: Int { heap.count }

  /// There must be one.
  var first: TicketRun {
    heap[0]
  }

  /// There must be one, which keeps the flow.
  var unretainedFirst: (flow: Borrowed<Flow>, tickets: Int, age: UInt64) { (Borrowed(heap[0].flow), heap[0].tickets, heap[0].age) }

  /// - Complexity: logarithmic.
  mutating func insert(_ entry: TicketRun) {
    heap.append(entry)
    var place = heap.count - 1
    while place > 0, heap[place].age < heap[(place - 1) / 2].age {
      heap.swapAt(place, (place - 1) / 2)
      place = (place - 1) / 2
    }
  }

  /// An empty heap keeps room for so many.
  private static let mostKept = 1024

  /// There must be one.
  /// - Complexity: logarithmic.
  mutating func removeFirst() {
    heap.swapAt(0, heap.count - 1)
    heap.removeLast()
    if heap.isEmpty, heap.capacity > Self.mostKept { heap = [] }
    var place = 0
    while true {
      var oldest = place
      for child in 2 * place + 1...2 * place + 2 where child < heap.count && heap[child].age < heap[oldest].age { oldest = child }
      if oldest == place { return }
      heap.swapAt(place, oldest)
      place = oldest
    }
  }

  /// Uses tickets of the first, which goes when none are left.
  mutating func useFirst(_ tickets: Int) {
    heap[0].tickets -= tickets
    if heap[0].tickets == 0 { removeFirst() }
  }

  /// In no order.
  mutating func takeAll() -> [TicketRun] {
    defer { heap = [] }
    return heap
  }
}
