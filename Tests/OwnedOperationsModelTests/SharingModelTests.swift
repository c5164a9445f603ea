import Foundation
import Testing

@testable import OwnedOperations

/// What processors have to share for a job, counted in the real code on a machine of the model's with as many processors as wanted.
///
/// In each round every processor makes one step: the next use of an atomic, a lock or a semaphore. What lies between two of these takes no
/// time, and neither does a cache line's way from one processor to another; it is counted. So rounds tell how work spreads and who waits
/// for whom, and not how fast a machine is.
///
/// `MODEL_SHARING=8,64` prints the table of `Documentation/SCALING.md` for so many processors; without it two are looked at, quickly.
@Suite(.serialized) struct SharingModelTests {
  /// A machine: in each round the threads that have a processor make a step, one after the other. One that can't go on gives its
  /// processor up, to who has waited for one longest.
  private final class Machine: ModelStrategy, @unchecked Sendable {  // the baton holder's
    private let processors: Int
    private var onProcessor: [Int] = []
    private var next = 0
    private(set) var rounds = 0
    /// Who has made a step in this round.
    private var stepped: Set<Int> = []
    let schedule = ModelSchedule()

    init(processors: Int) { self.processors = processors }

    func noteStep(of thread: Int) {
      if stepped.count == processors || stepped.contains(thread) {
        stepped = []
        rounds += 1
      }
      stepped.insert(thread)
    }

    func didAdd(_ thread: Int) {}
    func isShared(_ object: Int, by thread: Int) -> Bool { true }

    func choose(among threads: [Int], firstGoesOn: Bool, step: Int, state: () -> UInt64) -> Int {
      let places = Dictionary(uniqueKeysWithValues: zip(threads, threads.indices))
      let isLast = next < onProcessor.count ? onProcessor[next] : nil
      onProcessor.removeAll { places[$0] == nil }
      for thread in threads where onProcessor.count < processors && !onProcessor.contains(thread) { onProcessor.append(thread) }
      next = (isLast.flatMap { onProcessor.firstIndex(of: $0) } ?? next - 1) + 1
      if next >= onProcessor.count { next = 0 }
      return places[onProcessor[next]] ?? 0
    }
  }

  /// What has been counted since the threads of the scenario began.
  private struct Counts {
    var steps = 0
    var locks = 0
    var transfers = 0
    var rounds = 0
    var jobs = 0

    func each(_ count: Int) -> Double { Double(count) / Double(max(1, jobs)) }
  }

  private final class Counter: @unchecked Sendable {  // the baton holder's
    var counts = Counts()
    var isOn = false
    /// Whose caches have the object's line.
    private var holders: [Int: Set<Int>] = [:]

    func note(_ thread: Int, _ call: StaticString, _ object: ModelObject, _ use: ModelRun.Use) {
      guard isOn else { return }
      counts.steps += 1
      if ["lock", "tryLock"].contains("\(call)") { counts.locks += 1 }
      let has = holders[object.id] ?? []
      if use == .read {
        if !has.isEmpty, !has.contains(thread) { counts.transfers += 1 }
        holders[object.id] = has.union([thread])
      } else {
        if !has.isEmpty, has != [thread] { counts.transfers += 1 }
        holders[object.id] = [thread]
      }
    }
  }

  /// A body that takes so many steps of its own.
  private static func work(_ steps: Int) {
    let own = Atomic<Int>(0)
    for _ in 0..<steps { own.add(1, ordering: .relaxed) }
  }

  private static let nanosecondsPerRound: UInt64 = 20

  /// - Parameter threads: what they do, given how long a body is. Returns how many jobs have run.
  private func count(processors: Int, _ scenario: @escaping @Sendable (ModelRun) -> (count: Int, threads: [@Sendable () -> Void])) -> Counts
  {
    let formerly = (Processors.count, ModelRun.mostSteps)
    (Processors.count, ModelRun.mostSteps) = (processors, 50_000_000)
    defer { (Processors.count, ModelRun.mostSteps) = formerly }
    let machine = Machine(processors: processors)
    let counter = Counter()
    let run = ModelRun(machine, timePasses: true, earlyTimeouts: 0, exploresBackground: true, isTraced: false)
    run.tellsAtOnce = true
    var lastRound = 0
    run.listener = { [unowned run] thread, call, object, use in
      machine.noteStep(of: thread)
      counter.note(thread, call, object, use)
      if machine.rounds > lastRound {
        run.letPass(UInt64(machine.rounds - lastRound) * Self.nanosecondsPerRound)
        lastRound = machine.rounds
      }
    }
    run.run { run in
      let (count, threads) = scenario(run)
      counter.counts.jobs = count
      let before = machine.rounds
      counter.isOn = true
      run.concurrently(threads.map { ("thread", $0) })
      counter.isOn = false
      counter.counts.rounds = machine.rounds - before
    }
    #expect(run.failure == nil, "\(String(describing: run.failure))")
    return counter.counts
  }

  private struct Shape {
    let name: String
    /// Twice as many as were counted of a hundred jobs on two processors, per job. They vary with the threads that are parked.
    let mostLocks: Double
    /// Of how many threads add, and how many steps a body has.
    let scenario: @Sendable (_ processors: Int, _ body: Int, _ jobs: Int) -> @Sendable (ModelRun) -> (Int, [@Sendable () -> Void])
  }

  private static let shapes = [
    Shape(name: "P1: one thread adds, for one owner", mostLocks: 3) { _, body, jobs in
      { _ in
        let (queue, lifetime) = (OwnerScopedQueue(), OwnerLifetime())
        return (
          jobs,
          [
            {
              for _ in 0..<jobs { queue.async(lifetime: lifetime) { work(body) } }
              queue.waitUntilAllOperationsAreFinished()
            }
          ]
        )
      }
    },
    Shape(name: "P12: jobs add two jobs each", mostLocks: 2) { _, body, jobs in
      { _ in
        let (queue, lifetime) = (OwnerScopedQueue(), OwnerLifetime())
        @Sendable func add(_ count: Int) {
          queue.async(lifetime: lifetime) {
            work(body)
            let rest = count - 1
            if rest > 0 { add((rest + 1) / 2) }
            if rest > 1 { add(rest / 2) }
          }
        }
        return (
          jobs,
          [
            {
              add(jobs)
              queue.waitUntilAllOperationsAreFinished()
            }
          ]
        )
      }
    },
    Shape(name: "P13: as many threads as processors add, an owner each", mostLocks: 4) { processors, body, jobs in
      { _ in
        let queue = OwnerScopedQueue()
        let share = max(1, jobs / processors)
        return (
          share * processors,
          (0..<processors).map { _ in
            {
              let lifetime = OwnerLifetime()
              for _ in 0..<share { queue.async(lifetime: lifetime) { work(body) } }
              queue.waitUntilFinished(ownedBy: lifetime)
            }
          }
        )
      }
    },
    Shape(name: "P13, a queue for each thread", mostLocks: 3) { processors, body, jobs in
      { _ in
        let share = max(1, jobs / processors)
        return (
          share * processors,
          (0..<processors).map { _ in
            {
              let (queue, lifetime) = (OwnerScopedQueue(maxConcurrentOperationCount: 1), OwnerLifetime())
              for _ in 0..<share { queue.async(lifetime: lifetime) { work(body) } }
              queue.waitUntilAllOperationsAreFinished()
            }
          }
        )
      }
    },
    Shape(name: "P14: a hundred owners, in turn", mostLocks: 8) { _, body, jobs in
      { _ in
        let queue = OwnerScopedQueue()
        let lifetimes = (0..<100).map { _ in OwnerLifetime() }
        return (
          jobs,
          [
            {
              for index in 0..<jobs { queue.async(lifetime: lifetimes[index % 100]) { work(body) } }
              queue.waitUntilAllOperationsAreFinished()
            }
          ]
        )
      }
    },
    Shape(name: "P16: a serial queue's job adds the next", mostLocks: 1) { _, body, jobs in
      { _ in
        let (queue, lifetime) = (OwnerScopedQueue(maxConcurrentOperationCount: 1), OwnerLifetime())
        @Sendable func add(_ left: Int) {
          queue.async(lifetime: lifetime) {
            work(body)
            if left > 1 { add(left - 1) }
          }
        }
        return (
          jobs,
          [
            {
              add(jobs)
              queue.waitUntilAllOperationsAreFinished()
            }
          ]
        )
      }
    },
    Shape(name: "P19: owners come, add a job, and go when fifty others have come", mostLocks: 11) { _, body, jobs in
      { _ in
        let queue = OwnerScopedQueue()
        return (
          jobs,
          [
            {
              var alive: [OwnerLifetime] = []
              for index in 0..<jobs {
                let lifetime = OwnerLifetime()
                queue.async(lifetime: lifetime) { work(body) }
                if alive.count < 50 {
                  alive.append(lifetime)
                } else {
                  alive[index % 50].end()
                  alive[index % 50] = lifetime
                }
              }
              queue.waitUntilAllOperationsAreFinished()
            }
          ]
        )
      }
    },
  ]

  @Test func whatAJobShares() {
    let asked = ProcessInfo.processInfo.environment["MODEL_SHARING"]
    let processors = asked?.split(separator: ",").compactMap { Int($0) } ?? [2]
    print(
      "model: per job: locks taken, lines that come from another processor, steps; and rounds, which are fewer the more is done at once")
    for shape in Self.shapes {
      for body in [0, 100] {
        for processors in processors {
          let counts = count(processors: processors, shape.scenario(processors, body, asked == nil ? 100 : 50 * max(20, processors)))
          let figures = [counts.locks, counts.transfers, counts.steps, counts.rounds].map {
            String(format: "%.2f", counts.each($0))
          }
          print("model: | \(shape.name) | \(body) | \(processors) | \(figures.joined(separator: " | ")) |")
          #expect(counts.jobs > 0 && counts.locks > 0 && (asked != nil || counts.each(counts.locks) <= shape.mostLocks))
        }
      }
    }
  }
}
