import Foundation
import OwnedOperationsTesting
import Testing

/// Whole runs of a real queue, in virtual time, against a plain model of it: see `Simulation`.
///
/// As long as asked: `OWNED_OPERATIONS_SIMULATION_SECONDS=60`; `OWNED_OPERATIONS_SIMULATION_SEED` says where to begin.
@Suite struct SimulationTests {
  private static let length = 60
  private static let environment = ProcessInfo.processInfo.environment

  /// - Returns: what it has to say, ready to be pasted into a test; nil if there is no difference.
  private func failure(seed: UInt64, steps: inout Int) -> String? {
    if Self.environment["OWNED_OPERATIONS_SIMULATION_TRACE"] != nil { FileHandle.standardError.write(Data("seed \(seed)\n".utf8)) }
    let script = SimulationGenerator.script(seed: seed, length: Self.length)
    let (difference, count) = Simulation.run(script)
    steps += count
    guard let isObjection = difference?.isObjection else { return nil }
    let shortest = script.shrunk { Simulation.run($0, patience: 50).difference?.isObjection == isObjection }
    let text = Simulation.run(shortest, patience: 200).difference.map { "\($0)" } ?? "\(difference.map { "\($0)" } ?? ""), not each time"
    return "seed \(seed): \(text)\n\(shortest.code)"
  }

  @Test(arguments: 0..<4) func aQueueDoesWhatTheModelSays(part: Int) {
    var steps = 0
    for seed in 0..<20 { if let failure = failure(seed: UInt64(part * 20 + seed), steps: &steps) { Issue.record("\(failure)") } }
  }

  @Test func aFreshSeedFindsNothing() {
    let first = UInt64.random(in: 0...UInt64.max / 2)
    print("simulation: OWNED_OPERATIONS_SIMULATION_SEED=\(first)")
    var steps = 0
    for seed in first..<first + 30 { if let failure = failure(seed: seed, steps: &steps) { Issue.record("\(failure)") } }
  }

  // MARK: What it has found

  @Test(arguments: found) func whatWasFoundStaysMended(script: SimulationScript) {
    let difference = Simulation.run(script).difference
    #expect(difference == nil, "\(difference.map { "\($0)" } ?? "")")
  }

  private static let found = [
    // A job that had been given to a worker, and had not begun, held back what was more urgent of its owner.
    SimulationScript(steps: [.ownerLimit(1), .job(1, owner: 1, .normal, []), .job(2, owner: 1, .veryHigh, []), .runNext]),
    // It also came after what had been held since: its place was behind it.
    SimulationScript(steps: [
      .suspendOwner(2, true), .job(1, owner: 1, .normal, []), .job(2, owner: 2, .normal, []), .suspendOwner(2, false), .runNext,
    ]),
    // The end of an owner cancelled what depended on other work of the owner for that work's sake: it counted as not skipped.
    SimulationScript(steps: [
      .operation(1, .block, owner: 1, .normal, after: [], isAdded: true, []),
      .operation(2, .strict, owner: 1, .normal, after: [1], isAdded: true, []),
      .endOwner(1),
    ]),
    // What was cancelled still took its owner's turn.
    SimulationScript(steps: [
      .takeTurns(true),
      .operation(1, .block, owner: 1, .normal, after: [], isAdded: true, []),
      .operation(2, .block, owner: 2, .normal, after: [], isAdded: true, []),
      .job(3, owner: 1, .normal, []), .cancel(2), .job(4, owner: 2, .normal, []), .runAll,
    ]),
    // From here on it was the model. When owners no longer take turns, what is blocked again keeps its place among its owner's work.
    SimulationScript(steps: [
      .takeTurns(true),
      .operation(1, .block, owner: 1, .normal, after: [], isAdded: true, []),
      .operation(2, .block, owner: 1, .normal, after: [], isAdded: true, []),
      .operation(3, .block, owner: 1, .normal, after: [], isAdded: true, []),
      .depend(2, on: 1), .takeTurns(false), .runAll,
    ]),
    // A plain operation whose dependency finished without Foundation's knowing is asked, and costs a turn.
    SimulationScript(steps: [
      .operation(1, .block, owner: 1, .normal, after: [], isAdded: false, []),
      .job(3, owner: 2, .normal, []),
      .operation(4, .plain, owner: 1, .normal, after: [1], isAdded: true, []),
      .job(9, owner: 2, .normal, []),
      .endOwner(1),
      .takeTurns(true),
      .closure(26, []),
      .runAll,
    ]),
    // It has its place meanwhile.
    SimulationScript(steps: [
      .endOwner(4),
      .operation(4, .block, owner: 4, .normal, after: [], isAdded: false, []),
      .operation(7, .plain, owner: 2, .veryHigh, after: [4], isAdded: true, []),
      .operation(11, .block, owner: 3, .veryHigh, after: [], isAdded: true, []),
      .add([4]), .runNext,
    ]),
    // What is blocked again is held with the rest of its owner's work.
    SimulationScript(steps: [
      .barrier(1, [.barrier(2, [.operation(3, .block, owner: 1, .normal, after: [], isAdded: true, [])])]),
      .runNext,
      .operation(6, .block, owner: 1, .normal, after: [], isAdded: true, []),
      .operation(7, .block, owner: 2, .normal, after: [], isAdded: true, []),
      .runNext,
      .depend(3, on: 6),
      .ownerLimit(0),
      .runNext,
      .ownerLimit(2),
      .runAll,
    ]),
  ]

  // MARK: What it would find

  /// What is only in the background for a moment longer is no difference. So where there seems to be one it is looked for again, with
  /// patience.
  private func difference(of script: SimulationScript, _ defect: ReferenceQueue.Defect) -> Simulation.Difference? {
    guard Simulation.run(script, defect: defect, patience: 0).difference != nil else { return nil }
    return Simulation.run(script, defect: defect, patience: 20).difference
  }

  /// The model is made wrong instead of the queue: that is the same difference.
  @Test(arguments: ReferenceQueue.Defect.allCases) func aDefectIsFoundAndShrunk(_ defect: ReferenceQueue.Defect) throws {
    for seed in 0..<2000 as Range<UInt64> {
      let script = SimulationGenerator.script(seed: seed, length: Self.length)
      guard let difference = self.difference(of: script, defect) else { continue }
      let shortest = script.shrunk { self.difference(of: $0, defect)?.isObjection == difference.isObjection }
      #expect(shortest.steps.count <= 5, "\(shortest.code)")
      print("simulation: \(defect) found with seed \(seed), in the end by \(shortest.steps.map(\.code).joined(separator: " "))")
      return
    }
    Issue.record("\(defect) was not found")
  }

  // MARK: As long as asked

  @Test(.enabled(if: environment["OWNED_OPERATIONS_SIMULATION_SECONDS"] != nil)) func asLongAsAsked() {
    let seconds = Self.environment["OWNED_OPERATIONS_SIMULATION_SECONDS"].flatMap { Double($0) } ?? 0
    let first = Self.environment["OWNED_OPERATIONS_SIMULATION_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0...UInt64.max / 2)
    let start = Date()
    var (steps, scripts, failures) = (0, 0, 0)
    var nextLine = 60.0
    func report() {
      let elapsed = Date().timeIntervalSince(start)
      let rate = Int(Double(steps) / elapsed * 60)
      print("simulation: from seed \(first), \(scripts) scripts, \(steps) steps in \(Int(elapsed)) s, \(rate) a minute, \(failures) differ")
    }
    while Date().timeIntervalSince(start) < seconds, failures < 5 {
      if let failure = failure(seed: first &+ UInt64(scripts), steps: &steps) {
        Issue.record("\(failure)")
        failures += 1
      }
      scripts += 1
      guard Date().timeIntervalSince(start) >= nextLine else { continue }
      report()
      nextLine += 60
    }
    report()
    #expect(scripts > 0)
  }
}
