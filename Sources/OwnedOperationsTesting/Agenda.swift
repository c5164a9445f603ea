import OwnedOperations

/// A step that is due, and how it is called where it belongs to no queue.
struct AgendaStep {
  private let step: DrivenStep
  /// Of a task that merely prefers the time as its executor.
  let isOfTaskWithoutQueue: Bool

  init(_ step: DrivenStep, isOfTaskWithoutQueue: Bool) {
    self.step = step
    self.isOfTaskWithoutQueue = isOfTaskWithoutQueue
  }

  var isShuffled: Bool { step.isShuffled }
  var operation: ObjectIdentifier? { step.operation }
  func run(isNamed: Bool) -> DrivenStep.Outcome { step.run(isNamed: isNamed) }
}

/// What a virtual time has to run: steps that are due, in the order in which they became so, and calls with their deadlines.
struct Agenda {
  /// The first `start` have been taken.
  private var line: [AgendaStep?] = []
  private var start = 0
  /// The next comes last; of two with the same deadline, the one that was inserted first.
  private var later: [(deadline: Duration, call: DrivenCall)] = []

  var isEmpty: Bool { start == line.count }
  var steps: [AgendaStep] { line[start...].compactMap { $0 } }
  /// In the order of their deadlines.
  var calls: [(deadline: Duration, call: DrivenCall)] { later.reversed() }

  mutating func append(_ step: AgendaStep) { line.append(step) }

  /// The first; or, if that is one of a shuffled queue, any of those that are.
  /// - Parameter choose: one of so many.
  mutating func takeNext(_ choose: (Int) -> Int) -> AgendaStep? {
    guard start < line.count, let first = line[start] else { return nil }
    if first.isShuffled {
      let places = (start..<line.count).filter { line[$0]?.isShuffled ?? false }
      if places.count > 1 { line.swapAt(start, places[choose(places.count)]) }
    }
    defer {
      line[start] = nil
      start += 1
      if start * 2 > line.count {
        line.removeFirst(start)
        start = 0
      }
    }
    return line[start]
  }

  /// - Complexity: linear in the calls with earlier deadlines.
  mutating func insert(_ call: DrivenCall, at deadline: Duration) {
    var (low, high) = (0, later.count)
    while low < high {
      let middle = (low + high) / 2
      if later[middle].deadline > deadline { low = middle + 1 } else { high = middle }
    }
    later.insert((deadline, call), at: low)
  }

  var nextCall: (deadline: Duration, call: DrivenCall)? { later.last }

  /// The one that comes next, or close behind. The caller holds it.
  mutating func remove(_ call: DrivenCall) {
    if let place = later.lastIndex(where: { $0.call === call }) { later.remove(at: place) }
  }

  mutating func takeCall(dueAt time: Duration) -> DrivenCall? {
    guard let next = later.last, next.deadline <= time else { return nil }
    later.removeLast()
    return next.call
  }
}

/// Numbers that look random, the same for the same seed. (SplitMix64.)
struct SeededGenerator {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  private mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  /// From 0 to one less than the count, which must be positive.
  mutating func next(upTo count: Int) -> Int { Int(next().multipliedFullWidth(by: UInt64(count)).high) }
}
