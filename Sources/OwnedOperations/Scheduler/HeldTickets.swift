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
  /// - Parameter newest: the last age that was made for the ring.
  mutating func addNewest(after newest: UInt64, inRuns: Bool, makeAge: () -> UInt64) {
    let isSameRun = count > 0 && (!inRuns || lastAge == newest)
    add(1, age: isSameRun ? lastAge : makeAge(), inRuns: inRuns)
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
