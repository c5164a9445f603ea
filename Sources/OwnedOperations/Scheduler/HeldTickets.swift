/// Tickets of a flow that came up while its owner, or its line, could not go on. Guarded by the queue's lock.
///
/// They keep their ages, so that they come back in order among those of the owner's other flows. An owner without lines has one flow for
/// each level: there the age of the oldest is enough.
struct HeldTickets {
  typealias Run = (age: UInt64, tickets: Int)

  private(set) var count = 0
  private var oldest: Run = (0, 0)
  /// Those of greater ages, in order, from `laterStart` on.
  private var later: [Run] = []
  private var laterStart = 0

  init() {}

  /// The age of those that were added last.
  private var lastAge: UInt64 { laterStart < later.count ? later[later.count - 1].age : oldest.age }

  /// - Parameter inRuns: whether the owner has lines.
  mutating func add(_ tickets: Int, age: UInt64, inRuns: Bool) {
    defer { count += tickets }
    if count == 0 {
      oldest = (age, tickets)
    } else if age == oldest.age || !inRuns {
      oldest = (min(oldest.age, age), oldest.tickets + tickets)
    } else if age < oldest.age {
      later.insert(oldest, at: laterStart)
      oldest = (age, tickets)
    } else {
      var place = later.count
      while place > laterStart, later[place - 1].age > age { place -= 1 }
      if place > laterStart, later[place - 1].age == age {
        later[place - 1].tickets += tickets
      } else {
        later.insert((age, tickets), at: place)
      }
    }
  }

  /// Adds the newest ticket of the run queue's level, which never was in the run queue.
  /// - Parameter newest: the last age that was made for the run queue.
  mutating func addNewest(after newest: UInt64, inRuns: Bool, makeAge: () -> UInt64) {
    let isSameRun = count > 0 && (!inRuns || lastAge == newest)
    add(1, age: isSameRun ? lastAge : makeAge(), inRuns: inRuns)
  }

  /// Makes it one run of no age: before all others.
  mutating func reset(to count: Int = 0) {
    self.count = count
    oldest = (0, count)
    laterStart = 0
    if !later.isEmpty { later.removeAll() }
  }

  /// In order.
  var runs: [Run] { count == 0 ? [] : [oldest] + later[laterStart...] }

  /// - Complexity: amortised constant.
  mutating func takeOldest() -> Run? {
    guard count > 0 else { return nil }
    let taken = oldest
    guard laterStart < later.count else {
      reset()
      return taken
    }
    count -= taken.tickets
    oldest = later[laterStart]
    laterStart += 1
    if laterStart > 32, laterStart * 2 > later.count {
      later.removeFirst(laterStart)
      laterStart = 0
    }
    return taken
  }

  /// - Returns: all of them, in order.
  mutating func takeAll() -> [Run] {
    defer { reset() }
    return runs
  }

  /// Takes out those for whose items `isKept` has a false, in order.
  mutating func remove(keeping isKept: ArraySlice<Bool>) {
    var rest = isKept
    for (age, tickets) in takeAll() {
      let kept = rest.prefix(tickets).count { $0 }
      rest = rest.dropFirst(tickets)
      if kept > 0 { add(kept, age: age, inRuns: true) }
    }
  }
}
