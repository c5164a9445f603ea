import Foundation
import Synchronization

/// A number of threads that come, let owners live and die until so many operations have been added, and go. Then all is seen to its end.
struct Round {
  let world: World
  let size: Int
  let options: Options
  let seed: UInt64

  /// So that what is pending doesn't fill the memory.
  private static let mostLive = 400
  /// No end may take that long, whatever else runs on the machine; in nanoseconds.
  private static let longestEnd: UInt64 = 10_000_000_000
  /// Nor so much of the processor, of which sanitizers take many times more.
  private static let mostProcessorTime: UInt64 = Sanitizer.isThere ? 1_000_000_000 : 100_000_000

  func run() {
    let end = world.ledger.operations.load(ordering: .relaxed) + size
    let threads = DispatchGroup()
    let kept = Kept()
    for number in 0..<options.threads {
      threads.enter()
      Thread.detachNewThread {
        act(until: end, seed: seed &+ UInt64(number), kept)
        threads.leave()
      }
    }
    threads.wait()
    settle(kept)
  }

  private func act(until end: Int, seed: UInt64, _ kept: Kept) {
    var random = SplitMix(seed: seed)
    var ends = Latencies()
    var boxes: [OwnerBox] = []
    let visit = Visit(world: world, operations: options.operationsPerOwner)
    while world.ledger.operations.load(ordering: .relaxed) < end, world.ledger.failed == 0 {
      if let box = visit.run(&random, &ends) { boxes.append(box) }
      while world.ledger.live.load(ordering: .relaxed) > Self.mostLive { usleep(200) }
    }
    if ends.worst > Self.longestEnd || ends.worstOfProcessor > Self.mostProcessorTime {
      world.ledger.report(
        "the end of an owner took \(Figures.time(ends.worst)) (processor: at most \(Figures.time(ends.worstOfProcessor)))")
    }
    world.ledger.add(ends)
    kept.add(boxes)
  }

  /// Whoever waits here for ever is found by the watch.
  private func settle(_ kept: Kept) {
    world.group.wait()
    for queue in world.queues.all { queue.queue.waitUntilAllOperationsAreFinished() }
    // Delayed jobs, and what is released in the background.
    while world.ledger.live.load(ordering: .acquiring) > 0 { usleep(200) }
    for queue in world.queues.all {
      queue.queue.waitUntilAllOperationsAreFinished()
      queue.checkCounts(world.ledger)
    }
    kept.empty()
  }
}

/// Owners that live until the end of the round.
private final class Kept: Sendable {
  private let lock = NSLock()
  nonisolated(unsafe) private var boxes: [OwnerBox] = []  // guarded by `lock`

  func add(_ more: [OwnerBox]) { lock.withLock { boxes += more } }
  func empty() { lock.withLock { boxes = [] } }
}
