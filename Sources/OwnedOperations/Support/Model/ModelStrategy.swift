#if OWNED_OPERATIONS_MODEL
  /// Decides which thread of a run goes on.
  protocol ModelStrategy: AnyObject {
    func didAdd(_ thread: Int)
    /// Whether a point at the object is worth a decision. A point at what one thread alone ever touches is none.
    func isShared(_ object: Int, by thread: Int) -> Bool
    /// Whether it may choose another than the one that runs. If not, it need not be asked: most points of a run are such.
    var mayPreempt: Bool { get }
    /// - Parameters:
    ///   - firstGoesOn: the first of the threads runs now, and could go on.
    ///   - state: two runs that have come to the same state go on in the same ways; see `ModelRun.state`.
    /// - Returns: an index.
    func choose(among threads: [Int], firstGoesOn: Bool, step: Int, state: () -> UInt64) -> Int
    /// The decisions of the run that ended, by which it can be repeated.
    var schedule: ModelSchedule { get }
  }

  extension ModelStrategy {
    var mayPreempt: Bool { true }
  }

  /// A run as a list of decisions: at which steps another went on than the first of those who could, and which. Written `120:1,340:2`.
  struct ModelSchedule: CustomStringConvertible {
    private(set) var choices: [(step: Int, choice: Int)] = []

    init() {}

    /// Nil if the text is no such list.
    init?(_ text: String) {
      for part in text.split(separator: ",") {
        let numbers = part.split(separator: ":").compactMap { Int($0) }
        guard numbers.count == 2 else { return nil }
        choices.append((numbers[0], numbers[1]))
      }
    }

    mutating func note(_ choice: Int, at step: Int) {
      if choice != 0 { choices.append((step, choice)) }
    }

    var description: String { choices.map { "\($0.step):\($0.choice)" }.joined(separator: ",") }
  }

  /// The run of a list of decisions.
  final class RepeatingStrategy: ModelStrategy {
    let schedule: ModelSchedule
    private var left: ArraySlice<(step: Int, choice: Int)>

    init(_ schedule: ModelSchedule) {
      self.schedule = schedule
      left = schedule.choices[...]
    }

    func didAdd(_ thread: Int) {}

    func isShared(_ object: Int, by thread: Int) -> Bool { true }

    func choose(among threads: [Int], firstGoesOn: Bool, step: Int, state: () -> UInt64) -> Int {
      guard let next = left.first, next.step == step else { return 0 }
      left.removeFirst()
      return min(next.choice, threads.count - 1)
    }
  }

  /// All schedules with at most so many preemptions, depth first.
  ///
  /// If it reduces, it goes on from no state a second time, unless with more preemptions left. Schedules that differ only in the order of
  /// what is independent come to the same state, and one of them stands for all.
  final class ExhaustiveStrategy: ModelStrategy {
    private struct Decision {
      let options: Int
      var chosen: Int
    }

    private let mostPreemptions: Int
    private let reduces: Bool
    /// With how few preemptions each state has been reached.
    private var known: [UInt64: Int] = [:]
    /// Nothing new can come of the rest of this run.
    private var isKnown = false
    private var decisions: [Decision] = []
    private var depth = 0
    private var preemptions = 0
    /// Decisions that had other options when they were made again: something in the code under test differs from run to run.
    private(set) var divergences = 0
    private var firstToucher: [Int: Int] = [:]
    private var shared: Set<Int> = []
    private var hasFoundShared = false

    init(mostPreemptions: Int, reduces: Bool = false) {
      self.mostPreemptions = mostPreemptions
      self.reduces = reduces
    }

    func didAdd(_ thread: Int) {}

    func isShared(_ object: Int, by thread: Int) -> Bool {
      if shared.contains(object) { return true }
      if firstToucher[object, default: thread] != thread {
        shared.insert(object)
        hasFoundShared = true
      }
      firstToucher[object] = thread
      return false
    }

    var mayPreempt: Bool { preemptions < mostPreemptions && !isKnown }

    func choose(among threads: [Int], firstGoesOn: Bool, step: Int, state: () -> UInt64) -> Int {
      if firstGoesOn, !mayPreempt { return 0 }
      if depth == decisions.count, reduces, !isKnown { isKnown = !isNew(firstGoesOn ? ModelHash.of(state(), threads[0]) : state()) }
      // In turn, lest some wait for the others for ever.
      let chosen = isKnown ? firstGoesOn ? 0 : step % threads.count : decide(among: threads, firstGoesOn)
      schedule.note(chosen, at: step)
      return chosen
    }

    private func decide(among threads: [Int], _ firstGoesOn: Bool) -> Int {
      if depth == decisions.count { decisions.append(Decision(options: threads.count, chosen: 0)) }
      if decisions[depth].options != threads.count { divergences += 1 }
      let chosen = min(decisions[depth].chosen, threads.count - 1)
      depth += 1
      if firstGoesOn, chosen != 0 { preemptions += 1 }
      return chosen
    }

    private func isNew(_ state: UInt64) -> Bool {
      if let fewest = known[state], fewest <= preemptions { return false }
      known[state] = preemptions
      return true
    }

    private(set) var schedule = ModelSchedule()

    /// Once more.
    func rewind() {
      depth = 0
      preemptions = 0
      isKnown = false
      schedule = ModelSchedule()
      firstToucher = [:]
    }

    /// - Returns: false if there is no other schedule.
    func next() -> Bool {
      rewind()
      if hasFoundShared {
        // Some points turn out to have been decisions: all over again.
        hasFoundShared = false
        decisions = []
        known = [:]
        return true
      }
      while let last = decisions.last, last.chosen + 1 >= last.options { decisions.removeLast() }
      guard !decisions.isEmpty else { return false }
      decisions[decisions.count - 1].chosen += 1
      return true
    }
  }

  /// Random schedules by priorities (PCT): the thread with the highest priority runs, and at some random points its priority becomes the
  /// lowest.
  final class RandomStrategy: ModelStrategy {
    private var state: UInt64
    private let changes: [Int]
    private var priorities: [Int] = []
    private var lowest = 0
    private(set) var schedule = ModelSchedule()

    /// - Parameters:
    ///   - depth: how many orders a defect may depend on and be found.
    ///   - steps: about how many a run takes.
    init(seed: UInt64, depth: Int, steps: Int) {
      state = seed &* 0x9E37_79B9_7F4A_7C15 | 1
      var chosen: [Int] = []
      var state = state
      for _ in 1..<max(2, depth) { chosen.append(Int(Self.random(&state) % UInt64(max(1, steps)))) }
      self.state = state
      changes = chosen.sorted()
    }

    private static func random(_ state: inout UInt64) -> UInt64 {
      state ^= state << 13
      state ^= state >> 7
      state ^= state << 17
      return state >> 11
    }

    func didAdd(_ thread: Int) {
      while priorities.count <= thread { priorities.append(1000 + Int(Self.random(&state) % 1_000_000)) }
    }

    func isShared(_ object: Int, by thread: Int) -> Bool { true }

    func choose(among threads: [Int], firstGoesOn: Bool, step: Int, state: () -> UInt64) -> Int {
      if !firstGoesOn || changes.contains(step) {
        lowest -= 1
        if changes.contains(step) { priorities[threads[0]] = lowest }
      }
      let best = threads.indices.max { priorities[threads[$0]] < priorities[threads[$1]] } ?? 0
      schedule.note(best, at: step)
      return best
    }
  }
#endif
