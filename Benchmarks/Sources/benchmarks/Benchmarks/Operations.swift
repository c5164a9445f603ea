import Foundation
import OwnedOperations

extension Benchmark {
  static var operations: Benchmark {
    Benchmark("P2-operations", "operations: create, add, run, finish, free") { session in
      let count = session.pick(100_000, quick: 20_000)
      try session.compare(
        "\(count.short) operations", count: count, ours: JobRunner.ownedOperations().contender(jobs: count),
        peer: JobRunner.operationQueue().contender(jobs: count), target: .ratio(atMost: 0.1))
    }
  }
}

extension JobRunner {
  static func ownedOperations() -> JobRunner {
    let queue = OwnerScopedQueue()
    return JobRunner(name: "OwnedBlockOperation") { screen, count in
      for index in 0..<count {
        queue.addOperation(
          OwnedBlockOperation(owner: screen) { [weak screen] in
            guard let screen else { return }
            screen.visit(index)
          })
      }
      queue.waitUntilAllOperationsAreFinished()
    }
  }
}
