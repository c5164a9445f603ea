/// Entries of a ready ring that had been taken out and have come back, because their owner may go on or a worker has given back what it had
/// taken: the oldest first. A heap, because they come back in any order, and those of many owners may do so one by one.
struct ReturnedTurns {
  private var heap: [ReadyRing.Entry] = []

  var isEmpty: Bool { heap.isEmpty }

  /// There must be one.
  var first: ReadyRing.Entry {
    @inline(__always) get { heap[0] }
  }

  /// There must be one, which keeps the lane.
  var unretainedFirst: (lane: Borrowed<Lane>, tickets: Int, age: UInt64) { (Borrowed(heap[0].lane), heap[0].tickets, heap[0].age) }

  /// - Complexity: logarithmic.
  mutating func insert(_ entry: ReadyRing.Entry) {
    heap.append(entry)
    var place = heap.count - 1
    while place > 0, heap[place].age < heap[(place - 1) / 2].age {
      heap.swapAt(place, (place - 1) / 2)
      place = (place - 1) / 2
    }
  }

  /// There must be one.
  /// - Complexity: logarithmic.
  mutating func removeFirst() {
    heap.swapAt(0, heap.count - 1)
    heap.removeLast()
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
  mutating func takeAll() -> [ReadyRing.Entry] {
    defer { heap = [] }
    return heap
  }
}

/// Tickets of a lane that came up while its owner, or its line, could not go on. Guarded by the queue's lock.
///
/// They keep their ages, so that they come back in order among those of the owner's other lanes. An owner without lines has one lane for
/// each level: there the age of the oldest is enough.
struct HeldTickets {
  private(set) var count = 0
  private var oldest: UInt64 = 0
  /// Those that are not of the oldest age, in order.
  private var later: [(age: UInt64, tickets: Int)] = []

  init() {}

  /// Of those that were added last.
  private var lastAge: UInt64 { later.last?.age ?? oldest }

  /// - Parameter inRuns: whether the owner has lines.
  mutating func add(_ tickets: Int, age: UInt64, inRuns: Bool) {
    defer { count += tickets }
    if count == 0 {
      oldest = age
    } else if !inRuns {
      oldest = min(oldest, age)
    } else if age < oldest {
      later.insert((oldest, count - later.reduce(0) { $0 + $1.tickets }), at: 0)
      oldest = age
    } else if age > oldest {
      let place = (later.lastIndex { $0.age <= age } ?? -1) + 1
      if place > 0, later[place - 1].age == age { later[place - 1].tickets += tickets } else { later.insert((age, tickets), at: place) }
    }
  }

  /// Adds the newest ticket of the ring's level, which never was in the ring.
  mutating func addNewest(to ring: inout ReadyRing, inRuns: Bool) {
    if count > 0, !inRuns || lastAge == ring.lastAge {
      add(1, age: lastAge, inRuns: inRuns)
    } else {
      add(1, age: ring.makeAge(), inRuns: inRuns)
    }
  }

  /// Makes it one run of no age: before all others.
  mutating func reset(to count: Int = 0) {
    self.count = count
    oldest = 0
    if !later.isEmpty { later.removeAll() }
  }

  /// In order.
  var runs: [(age: UInt64, tickets: Int)] {
    if count == 0 { return [] }
    return [(oldest, count - later.reduce(0) { $0 + $1.tickets })] + later
  }

  /// - Returns: all of them, in order.
  mutating func takeAll() -> [(age: UInt64, tickets: Int)] {
    defer { reset() }
    return runs
  }

  /// Takes out those for whose records `isKept` has a false, in order.
  mutating func remove(keeping isKept: ArraySlice<Bool>) {
    var rest = isKept
    for (age, tickets) in takeAll() {
      let kept = rest.prefix(tickets).count { $0 }
      rest = rest.dropFirst(tickets)
      if kept > 0 { add(kept, age: age, inRuns: true) }
    }
  }
}
