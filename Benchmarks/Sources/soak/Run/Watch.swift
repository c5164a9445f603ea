import Foundation
import Synchronization

/// Prints a line a minute, and ends the process when nothing goes on any more. On a thread of its own.
final class Watch: Sendable {
  private let world: World
  private let seed: UInt64
  private let threads: Int
  private let start = DispatchTime.now().uptimeNanoseconds
  private let rounds = Atomic<Int>(0)
  private let ended = DispatchSemaphore(value: 0)
  private let left = DispatchSemaphore(value: 0)

  private static let linesEvery: UInt64 = 60_000_000_000
  private static let patience: UInt64 = 120_000_000_000

  init(_ world: World, seed: UInt64, threads: Int) {
    self.world = world
    self.seed = seed
    self.threads = threads
  }

  func begin() { Thread.detachNewThread { self.watch() } }

  func end() {
    ended.signal()
    left.wait()
  }

  func noteRound() { rounds.add(1, ordering: .relaxed) }

  private func watch() {
    var (lines, lastBeat, lastChange) = (UInt64(0), 0, start)
    while ended.wait(timeout: .now() + .milliseconds(200)) == .timedOut {
      let now = DispatchTime.now().uptimeNanoseconds
      let beat = world.ledger.beat &+ rounds.load(ordering: .relaxed)
      if beat != lastBeat { (lastBeat, lastChange) = (beat, now) }
      if now - lastChange > Self.patience { giveUp() }
      guard (now - start) / Self.linesEvery > lines else { continue }
      lines = (now - start) / Self.linesEvery
      printLine(Double(now - start) / 1e9)
    }
    left.signal()
  }

  private func printLine(_ elapsed: Double) {
    let (ledger, figures) = (world.ledger, ProcessFigures.current)
    let (operations, owners) = (ledger.operations.load(ordering: .relaxed), ledger.owners.load(ordering: .relaxed))
    let rate = Figures.count(Int(Double(operations) / elapsed))
    say(
      "\(Int(elapsed)) s: \(Figures.count(operations)) operations, \(Figures.count(owners)) owners, \(rate)/s, "
        + "resident \(Figures.bytes(figures.resident)), \(figures.threads) threads, \(ledger.failed) failures\n")
  }

  private func giveUp() -> Never {
    for queue in world.queues.all {
      let queue = queue.queue
      say("  \(queue): \(queue.isSuspended ? "suspended; " : "")\(queue.statistics)\n")
      for operation in queue.operations.prefix(5) {
        say("    \(operation), ready \(operation.isReady), cancelled \(operation.isCancelled), executing \(operation.isExecuting)\n")
      }
    }
    for report in world.ledger.reports { say("  \(report)\n") }
    fail(
      "nothing has gone on for two minutes, with --seed \(seed) --threads \(threads); \(world.ledger.live.load(ordering: .relaxed)) tallies are left",
      status: 1)
  }
}
