#if OWNED_OPERATIONS_MODEL
  import Foundation

  /// Explores a scenario, and tells what it has seen.
  ///
  /// A failure is repeated with a trace of every step, which the report keeps. `MODEL_SEED` repeats one run of a random exploration.
  struct ModelExplorer {
    let name: String
    var mostPreemptions = 2
    /// Whether one schedule stands for all that only differ in the order of what is independent; see `ModelRun.state`.
    var reduces = setting("MODEL_REDUCES") != nil
    /// Beyond that many schedules it stops, and says so.
    var mostSchedules = setting("MODEL_SCHEDULES") ?? 50_000
    /// Time passes when nobody can go on.
    var timePasses = false
    /// How many timers, and other waits with a limit, may end at any point, beyond those that end because nobody can go on.
    var earlyTimeouts = 0
    /// Whether it is explored, too, what threads of the library's do meanwhile: what is released and told in the background.
    var exploresBackground = false
    /// Whether what the library does without haste waits for its timers: what is released then, members at rest, idle queues.
    var gathers = false
    /// Whether an owner's end is told by the thread that ends it, where that can be, and not by the reaper.
    var tellsAtOnce = false
    /// Whether queues look for ends that somebody waits for.
    var watchesEnds = false

    init(_ name: String) { self.name = name }

    /// A number from the environment.
    static func setting(_ name: String) -> Int? { ProcessInfo.processInfo.environment[name].flatMap { Int($0) } }

    struct Report: CustomStringConvertible {
      let name: String
      var schedules = 0
      /// Runs that differ in more than the order of what is independent.
      var outcomes: Set<UInt64> = []
      var isReduced = false
      var isComplete = false
      var mostSteps = 0
      var divergences = 0
      var failure: String?
      var trace: [String] = []

      var description: String {
        let extent = isComplete ? isReduced ? "schedules stand for all" : "all schedules" : "schedules"
        let different = outcomes.isEmpty ? "" : ", \(outcomes.count) different"
        let diverged = divergences > 0 ? ", \(divergences) decisions could not be repeated" : ""
        let result = failure.map { "FAILED: \($0)" } ?? "nothing found"
        return "model: \(name): \(schedules) \(extent)\(different), at most \(mostSteps) steps\(diverged): \(result)"
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
      let strategy = ExhaustiveStrategy(mostPreemptions: mostPreemptions, reduces: reduces)
      report.isReduced = reduces
      repeat {
        let run = run(strategy, isTraced: false, scenario)
        report.schedules += 1
        report.mostSteps = max(report.mostSteps, run.stepCount)
        report.outcomes.insert(run.state)
        if let failure = run.failure {
          report.failure = "\(failure); MODEL_DECISIONS=\(strategy.schedule)"
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

    /// The run that `MODEL_DECISIONS` says, with a trace of every step. What had failed says so, and the scenario has to be named, too.
    func repeatedly(_ schedule: ModelSchedule, _ scenario: @escaping @Sendable (ModelRun) -> Void) -> Report {
      // What the first run makes for all, it makes before the others.
      _ = run(ExhaustiveStrategy(mostPreemptions: 0), isTraced: false, scenario)
      let run = run(RepeatingStrategy(schedule), isTraced: true, scenario)
      var report = Report(name: "\(name), repeated")
      (report.schedules, report.mostSteps) = (1, run.stepCount)
      report.failure = run.failure.map { "\($0)" }
      for line in run.trace ?? [] { print(line) }
      print(report)
      return report
    }

    /// How much is seen by random priorities: schedules by seeds that follow each other, as many as asked for, or as there is time for.
    struct Amount {
      var schedules = Int.max
      var seconds = Double.infinity
      var firstSeed: UInt64 = 1
    }

    /// By random priorities. Ends at the first failure.
    func randomly(_ amount: Amount, _ scenario: @escaping @Sendable (ModelRun) -> Void) -> Report {
      let depth = Self.setting("MODEL_DEPTH") ?? 4
      var report = Report(name: "\(name), random, depth \(depth)")
      let only = Self.setting("MODEL_SEED").map { UInt64($0) }
      // The same for each run, so that the seed says all.
      let steps = run(ExhaustiveStrategy(mostPreemptions: 0), isTraced: false, scenario).stepCount
      report.mostSteps = steps
      let start = Uptime.now
      var seed = only ?? amount.firstSeed
      while report.schedules < (only == nil ? amount.schedules : 1), Double(Uptime.now - start) < amount.seconds * 1e9 {
        let run = run(RandomStrategy(seed: seed, depth: depth, steps: steps), isTraced: only != nil, scenario)
        report.schedules += 1
        report.mostSteps = max(report.mostSteps, run.stepCount)
        if let failure = run.failure {
          report.failure = "\(failure); MODEL_SEED=\(seed) MODEL_DEPTH=\(depth)"
          if let trace = run.trace { for line in trace { print(line) } }
          break
        }
        seed &+= 1
      }
      print(report)
      return report
    }

    private static let oneAtATime = NSLock()

    private func run(
      _ strategy: any ModelStrategy, isTraced: Bool, _ scenario: @escaping @Sendable (ModelRun) -> Void
    ) -> ModelRun {
      // A run is the process's: scenarios that are tested side by side take turns.
      Self.oneAtATime.lock()
      defer { Self.oneAtATime.unlock() }
      let run = ModelRun(
        strategy, timePasses: timePasses, earlyTimeouts: earlyTimeouts, exploresBackground: exploresBackground, isTraced: isTraced)
      run.gathers = gathers
      run.tellsAtOnce = tellsAtOnce
      run.watchesEnds = watchesEnds
      run.run(scenario)
      return run
    }
  }
#endif
