#if OWNED_OPERATIONS_MODEL
  import Foundation

  /// Explores a scenario, and tells what it has seen.
  ///
  /// A failure is repeated with a trace of every step, which the report keeps. `MODEL_SEED` repeats one run of a random exploration.
  struct ModelExplorer {
    let name: String
    var mostPreemptions = 2
    /// Beyond that many schedules it stops, and says so.
    var mostSchedules = ProcessInfo.processInfo.environment["MODEL_SCHEDULES"].flatMap { Int($0) } ?? 50_000
    /// Time passes when nobody can go on.
    var timePasses = false
    /// How many timers, and other waits with a limit, may end at any point, beyond those that end because nobody can go on.
    var earlyTimeouts = 0
    /// Whether it is explored, too, what threads of the library's do meanwhile: what is released and told in the background.
    var exploresBackground = false

    init(_ name: String) { self.name = name }

    struct Report: CustomStringConvertible {
      let name: String
      var schedules = 0
      var isComplete = false
      var mostSteps = 0
      var divergences = 0
      var failure: String?
      var schedule: [Int] = []
      var trace: [String] = []

      var description: String {
        let extent = isComplete ? "all schedules" : "schedules"
        let diverged = divergences > 0 ? ", \(divergences) decisions could not be repeated" : ""
        let result = failure.map { "FAILED: \($0)" } ?? "nothing found"
        return "model: \(name): \(schedules) \(extent), at most \(mostSteps) steps\(diverged): \(result)"
      }
    }

    /// Depth first. Ends at the first failure.
    func exhaustively(_ scenario: @escaping @Sendable (ModelRun) -> Void) -> Report {
      var report = Report(name: "\(name), \(mostPreemptions) preemptions")
      // What the first run makes for all, it makes before the others.
      let first = run(ExhaustiveStrategy(mostPreemptions: 0), isTraced: true, scenario)
      if let failure = first.failure {
        (report.schedules, report.failure, report.trace) = (1, "\(failure)", first.trace ?? [])
        print(report)
        return report
      }
      let strategy = ExhaustiveStrategy(mostPreemptions: mostPreemptions)
      repeat {
        let run = run(strategy, isTraced: false, scenario)
        report.schedules += 1
        report.mostSteps = max(report.mostSteps, run.stepCount)
        if let failure = run.failure {
          report.failure = "\(failure)"
          report.schedule = strategy.schedule
          strategy.rewind()
          report.trace = self.run(strategy, isTraced: true, scenario).trace ?? []
          break
        }
        report.isComplete = !strategy.next()
      } while !report.isComplete && report.schedules < mostSchedules
      report.divergences = strategy.divergences
      print(report)
      return report
    }

    /// By random priorities. Ends at the first failure.
    func randomly(_ schedules: Int, depth: Int = 4, _ scenario: @escaping @Sendable (ModelRun) -> Void) -> Report {
      var report = Report(name: "\(name), random, depth \(depth)")
      let first = ProcessInfo.processInfo.environment["MODEL_SEED"].flatMap { UInt64($0) }
      report.mostSteps = run(ExhaustiveStrategy(mostPreemptions: 0), isTraced: false, scenario).stepCount
      for seed in (first ?? 1)..<(first.map { $0 + 1 } ?? UInt64(schedules) + 1) {
        let run = run(RandomStrategy(seed: seed, depth: depth, steps: report.mostSteps), isTraced: first != nil, scenario)
        report.schedules += 1
        report.mostSteps = max(report.mostSteps, run.stepCount)
        if let failure = run.failure {
          report.failure = "\(failure); MODEL_SEED=\(seed)"
          report.schedule = run.strategy.schedule
          if let trace = run.trace { for line in trace { print(line) } }
          break
        }
      }
      print(report)
      return report
    }

    private func run(
      _ strategy: any ModelStrategy, isTraced: Bool, _ scenario: @escaping @Sendable (ModelRun) -> Void
    ) -> ModelRun {
      let run = ModelRun(
        strategy, timePasses: timePasses, earlyTimeouts: earlyTimeouts, exploresBackground: exploresBackground, isTraced: isTraced)
      run.run(scenario)
      return run
    }
  }
#endif
