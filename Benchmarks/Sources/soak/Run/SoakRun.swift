import Foundation
import Synchronization

/// A run: rounds of some million operations, after each of which all has to be over and to add up.
final class SoakRun: Sendable {
  private let options: Options
  private let world = World()
  private let watch: Watch
  private let start = DispatchTime.now().uptimeNanoseconds

  /// Threads that the library and GCD keep: the first, GCD's manager, six spare ones, and what stays parked for a moment.
  private static let mostThreadsAtRest = 16
  /// In tenths of a second: GCD's threads go after five seconds.
  private static let patience = 60
  /// Fewer are no run whose beginning and end could be compared.
  private static let leastRounds = 10
  /// What malloc's caches for threads may make of a run, wherever the twentieth part is less; see `mallocKeepsForThreads`.
  private static let leastGrowth = 4 << 20
  /// What a thread more may hold: its stack's pages, and what glibc's malloc keeps for it, up to seven blocks of each of 64 sizes, some
  /// 240 kB in all, which count as in use until the thread ends.
  private static let memoryOfThread = 512 << 10
  /// With `GLIBC_TUNABLES=glibc.malloc.tcache_count=0` it doesn't, and memory is held to a twentieth without an allowance.
  private static let mallocKeepsForThreads =
    !(ProcessInfo.processInfo.environment["GLIBC_TUNABLES"] ?? "").contains("glibc.malloc.tcache_count=0")

  init(_ options: Options) {
    self.options = options
    watch = Watch(world, seed: options.seed, threads: options.threads)
  }

  /// - Returns: whether nothing was found.
  func run() -> Bool {
    say("soak --seed \(options.seed) --threads \(options.threads): at most \(aim)\n")
    let threadsBefore = ProcessFigures.current.threads
    watch.begin()
    var random = SplitMix(seed: options.seed)
    var rounds = 0
    var early: ProcessFigures?
    var rest = 0.0
    repeat {
      Round(world: world, size: roundSize, options: options, seed: random.next()).run()
      rounds += 1
      watch.noteRound()
      if early == nil, share(after: elapsed) >= 0.1 {
        let restStart = elapsed
        early = figuresAtRest()
        rest = elapsed - restStart
      }
    } while share(after: elapsed - rest) < 1 && world.ledger.failed == 0
    watch.end()
    let elapsed = elapsed - rest
    let late = figuresAtRest()
    checkThreads(late, threadsBefore)
    // A run that is over after few rounds has nothing to compare.
    let memory = rounds >= Self.leastRounds ? early.map { (early: $0, late: late) } : nil
    if let memory { checkMemory(memory.early, memory.late) }
    summarize(memory, elapsed, rounds)
    return world.ledger.failed == 0
  }

  /// What the process holds when the threads are gone that GCD keeps for some seconds after their last block: each has memory of its own.
  private func figuresAtRest() -> ProcessFigures {
    var (fewest, unchanged) = (Int.max, 0)
    while unchanged < Self.patience {
      let threads = ProcessFigures.current.threads
      (fewest, unchanged) = threads < fewest ? (threads, 0) : (fewest, unchanged + 1)
      usleep(100_000)
    }
    return .atRest()
  }

  private var aim: String {
    var aims: [String] = []
    if options.operations > 0 { aims.append("\(Figures.count(options.operations)) operations") }
    if options.owners > 0 { aims.append("\(Figures.count(options.owners)) owners") }
    if let seconds = options.seconds { aims.append("\(Figures.count(Int(seconds))) s") }
    return aims.joined(separator: ", ")
  }

  private var elapsed: Double { Double(DispatchTime.now().uptimeNanoseconds - start) / 1e9 }

  /// How much of the run is over.
  private func share(after seconds: Double) -> Double {
    var shares: [Double] = []
    let ledger = world.ledger
    if options.operations > 0 { shares.append(Double(ledger.operations.load(ordering: .relaxed)) / Double(options.operations)) }
    if options.owners > 0 { shares.append(Double(ledger.owners.load(ordering: .relaxed)) / Double(options.owners)) }
    return max(shares.min() ?? 0, options.seconds.map { seconds / $0 } ?? 0)
  }

  /// Twenty rounds at least, so that there is something to compare.
  private var roundSize: Int {
    let most = 2_000_000
    if options.seconds != nil { return most / 4 }
    if options.operations > 0 { return min(most, max(1_000, options.operations / 20)) }
    return min(most, max(1_000, options.owners * options.operationsPerOwner / 20))
  }

  // MARK: At the end

  private func checkMemory(_ early: ProcessFigures, _ late: ProcessFigures) {
    guard !Sanitizer.isThere else { return }
    let threads = Self.mallocKeepsForThreads ? max(0, late.threads - early.threads) : 0
    let growth = late.resident - early.resident - threads * Self.memoryOfThread
    if growth > max(early.resident / 20, Self.mallocKeepsForThreads ? Self.leastGrowth : 0) {
      world.ledger.report(
        "memory grows: \(Figures.bytes(early.resident)) resident after a tenth, with \(early.threads) threads; "
          + "\(Figures.bytes(late.resident)) at the end, with \(late.threads)")
    }
  }

  private func checkThreads(_ late: ProcessFigures, _ before: Int) {
    guard late.threads > max(before, Self.mostThreadsAtRest) else { return }
    world.ledger.report("\(late.threads) threads are left: \(ProcessFigures.threads.sorted().joined(separator: ", "))")
  }

  private func summarize(_ memory: (early: ProcessFigures, late: ProcessFigures)?, _ elapsed: Double, _ rounds: Int) {
    let ledger = world.ledger
    let (operations, owners) = (ledger.operations.load(ordering: .relaxed), ledger.owners.load(ordering: .relaxed))
    let ends = ledger.ends
    say("\n\(Figures.count(operations)) operations of \(Figures.count(owners)) owners in \(Figures.count(Int(elapsed))) s\n")
    say("\(Figures.count(Int(Double(operations) / elapsed))) operations a second, \(rounds) rounds\n")
    for queue in world.queues.all {
      let counts = queue.queue.statistics
      say(
        "  \(queue.record.name): \(counts.enqueued) enqueued = \(counts.succeeded) succeeded + \(counts.failed) failed + \(counts.cancelled) cancelled "
          + "(\(counts.skippedForEndedOwners) skipped); \(counts.started) started\n")
    }
    say("the end of an owner: \(Figures.count(ends.count)) measured, median \(Figures.time(ends.quantile(0.5))), 99 % within ")
    say("\(Figures.time(ends.quantile(0.99))), worst \(Figures.time(ends.worst)) (processor: \(Figures.time(ends.worstOfProcessor)))\n")
    if let (early, late) = memory {
      let change = 100 * Double(late.resident - early.resident) / Double(max(1, early.resident))
      say("resident after a tenth \(Figures.bytes(early.resident)), at the end \(Figures.bytes(late.resident)): ")
      say("\(change < 0 ? "" : "+")\(Figures.decimal(change)) %, each after malloc_trim; ")
      say("of malloc's, in use: \(Figures.bytes(early.heap)), \(Figures.bytes(late.heap)); threads: \(early.threads), \(late.threads)\n")
      if Sanitizer.isThere { say("memory was not compared: the sanitizer keeps what is released\n") }
    } else {
      say("memory was not compared: fewer than \(Self.leastRounds) rounds\n")
    }
    say("threads left: \(ProcessFigures.threads.sorted().joined(separator: ", "))\n")
    guard ledger.failed > 0 else { return say("nothing was found\n") }
    say("\(ledger.failed) FAILURES with --seed \(options.seed) --threads \(options.threads); the first:\n")
    for report in ledger.reports { say("  \(report)\n") }
  }
}
