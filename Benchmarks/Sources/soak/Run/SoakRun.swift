import Foundation
import Synchronization

/// A run: rounds of some million operations, after each of which all has to be over and to add up.
final class SoakRun: Sendable {
  private let options: Options
  private let world = World()
  private let watch: Watch
  private let start = DispatchTime.now().uptimeNanoseconds

  /// What was seen at rest after a round.
  private struct Sample {
    /// Of the run.
    let share: Double
    let figures: ProcessFigures
  }

  /// Threads that the library and GCD keep: the first, GCD's manager, six spare ones, and what stays parked for a moment.
  private static let mostThreadsAtRest = 16
  /// Of a run. Resident pages jump by some hundreds of kilobytes whatever one does, which in a small process is more than the twentieth
  /// part.
  private static let leastGrowth = 4 << 20

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
    var samples: [Sample] = []
    repeat {
      Round(world: world, size: roundSize, options: options, seed: random.next()).run()
      samples.append(Sample(share: share, figures: .atRest()))
      watch.noteRound()
    } while share < 1 && world.ledger.failed == 0
    watch.end()
    let elapsed = elapsed
    checkMemory(samples)
    checkThreads(threadsBefore)
    summarize(samples, elapsed)
    return world.ledger.failed == 0
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
  private var share: Double {
    var shares: [Double] = []
    let ledger = world.ledger
    if options.operations > 0 { shares.append(Double(ledger.operations.load(ordering: .relaxed)) / Double(options.operations)) }
    if options.owners > 0 { shares.append(Double(ledger.owners.load(ordering: .relaxed)) / Double(options.owners)) }
    return max(shares.min() ?? 0, options.seconds.map { elapsed / $0 } ?? 0)
  }

  /// Twenty rounds at least, so that there is something to compare.
  private var roundSize: Int {
    let most = 2_000_000
    if options.seconds != nil { return most / 4 }
    if options.operations > 0 { return min(most, max(1_000, options.operations / 20)) }
    return min(most, max(1_000, options.owners * options.operationsPerOwner / 20))
  }

  // MARK: At the end

  private func checkMemory(_ samples: [Sample]) {
    guard let (early, late) = earlyAndLate(samples) else { return }
    let growth = late.resident - early.resident
    if growth > max(early.resident / 20, Self.leastGrowth) {
      world.ledger.report(
        "memory grows: \(Figures.bytes(early.resident)) resident after a tenth, \(Figures.bytes(late.resident)) at the end")
    }
  }

  /// After a tenth, and at the end; medians of some samples, as there is always something that has not been given back yet.
  private func earlyAndLate(_ samples: [Sample]) -> (early: ProcessFigures, late: ProcessFigures)? {
    guard let first = samples.firstIndex(where: { $0.share >= 0.1 }), samples.count >= 10 else { return nil }
    let few = min(5, samples.count / 5)
    func median(_ samples: ArraySlice<Sample>) -> ProcessFigures {
      let middle = samples.count / 2
      return ProcessFigures(
        resident: samples.map(\.figures.resident).sorted()[middle], heap: samples.map(\.figures.heap).sorted()[middle],
        threads: samples.map(\.figures.threads).sorted()[middle])
    }
    return (median(samples[first..<min(samples.count, first + few)]), median(samples.suffix(few)))
  }

  /// GCD's threads go some seconds after their last block.
  private func checkThreads(_ before: Int) {
    let deadline = DispatchTime.now() + 60
    while ProcessFigures.current.threads > max(before, Self.mostThreadsAtRest), DispatchTime.now() < deadline { usleep(100_000) }
    let threads = ProcessFigures.threads
    if threads.count > max(before, Self.mostThreadsAtRest) {
      world.ledger.report("\(threads.count) threads are left: \(threads.sorted().joined(separator: ", "))")
    }
  }

  private func summarize(_ samples: [Sample], _ elapsed: Double) {
    let ledger = world.ledger
    let (operations, owners) = (ledger.operations.load(ordering: .relaxed), ledger.owners.load(ordering: .relaxed))
    let ends = ledger.ends
    say("\n\(Figures.count(operations)) operations of \(Figures.count(owners)) owners in \(Figures.count(Int(elapsed))) s\n")
    say("\(Figures.count(Int(Double(operations) / elapsed))) operations a second, \(samples.count) rounds\n")
    for queue in world.queues.all {
      let counts = queue.queue.statistics
      say(
        "  \(queue.record.name): \(counts.enqueued) enqueued = \(counts.succeeded) succeeded + \(counts.failed) failed + \(counts.cancelled) cancelled "
          + "(\(counts.skippedForEndedOwners) skipped); \(counts.started) started\n")
    }
    say("the end of an owner: \(Figures.count(ends.count)) measured, median \(Figures.time(ends.quantile(0.5))), 99 % within ")
    say("\(Figures.time(ends.quantile(0.99))), worst \(Figures.time(ends.worst)) (processor: \(Figures.time(ends.worstOfProcessor)))\n")
    if let (early, late) = earlyAndLate(samples) {
      let change = 100 * Double(late.resident - early.resident) / Double(max(1, early.resident))
      say("resident after a tenth \(Figures.bytes(early.resident)), at the end \(Figures.bytes(late.resident)): ")
      say("\(change < 0 ? "" : "+")\(Figures.decimal(change)) %, each after malloc_trim; ")
      say("of malloc's, in use: \(Figures.bytes(early.heap)), \(Figures.bytes(late.heap))\n")
    }
    say("threads left: \(ProcessFigures.threads.sorted().joined(separator: ", "))\n")
    guard ledger.failed > 0 else { return say("nothing was found\n") }
    say("\(ledger.failed) FAILURES with --seed \(options.seed) --threads \(options.threads); the first:\n")
    for report in ledger.reports { say("  \(report)\n") }
  }
}
