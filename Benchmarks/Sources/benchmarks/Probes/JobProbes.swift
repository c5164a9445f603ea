import Foundation
import OwnedOperations

extension Probe {
  /// Adding jobs and waiting for them.
  static var jobs: [Probe] {
    [
      Probe("jobs-ours") { count in try JobRunner.ours().runOnce(jobs: count) },
      Probe("jobs-ours-on-gcd") { count in try JobRunner.oursOnGCD().runOnce(jobs: count) },
      Probe("jobs-gcd") { count in try JobRunner.gcd().runOnce(jobs: count) },
      Probe("jobs-gcd-weak") { count in try JobRunner.gcdWithWeakCheck().runOnce(jobs: count) },
      Probe("jobs-safe-dispatch") { count in try JobRunner.safeDispatch().runOnce(jobs: count) },
      Probe("operations-ours") { count in try JobRunner.ownedOperations().runOnce(jobs: count) },
      Probe("operations-foundation") { count in try JobRunner.operationQueue().runOnce(jobs: count) },
    ]
  }

  /// Jobs that add jobs, and queues that are many.
  static var shapes: [Probe] {
    [
      Probe("nested-ours") { count in
        let queue = OwnerScopedQueue()
        let screen = Screen()
        Session.add(0, of: count, screen, to: queue)
        queue.waitUntilAllOperationsAreFinished()
      },
      Probe("next-ours") { count in runNext(count, queues: 1) },
      Probe("ping-pong-ours") { count in runNext(count, queues: 2) },
      Probe("serial-queues-ours") { count in
        let queues = (0..<1000).map { _ in OwnerScopedQueue(maxConcurrentOperationCount: 1) }
        let screen = Screen()
        for index in 0..<count { queues[index % queues.count].async(owner: screen) { screen in screen.visit(index) } }
        for queue in queues { queue.waitUntilAllOperationsAreFinished() }
      },
      Probe("adders-ours") { count in
        let queue = OwnerScopedQueue()
        let added = Countdown(from: 8)
        for _ in 0..<8 {
          Thread.detachNewThread {
            let screen = Screen()
            for index in 0..<count / 8 { queue.async(owner: screen) { screen in screen.visit(index) } }
            queue.waitUntilAllOperationsAreFinished()
            added.countDown()
          }
        }
        added.wait()
      },
      Probe("owners-in-turn-ours") { count in
        let queue = OwnerScopedQueue()
        let screens = (0..<100_000).map { _ in Screen() }
        for index in 0..<count {
          queue.async(owner: screens[index % screens.count]) { screen in screen.visit(index) }
        }
        queue.waitUntilAllOperationsAreFinished()
      },
      turns("turns-round-robin-ours", .roundRobin),
      turns("turns-first-come-ours", .firstComeFirstServed),
      passingOwners("passing-owners-1-ours", alive: 1),
      passingOwners("passing-owners-1000-ours", alive: 1000),
      passingOwners("passing-owners-ours", alive: 100_000),
      barriers("barriers-ours", owners: 1),
      barriers("barriers-in-turn-ours", owners: 2),
      barriers("barriers-jobs-ours", owners: 1, hasJobs: true),
      Probe("queue-lives-ours") { count in
        let screen = Screen()
        for index in 0..<count {
          let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
          queue.async(owner: screen) { screen in screen.visit(index) }
          queue.waitUntilAllOperationsAreFinished()
        }
      },
      Probe("awaiting-ours") { count in
        let queue = OwnerScopedQueue()
        let screen = Screen()
        let end = Countdown(from: 1)
        Task.detached {
          for index in 0..<count { try await queue.run(owner: screen) { screen in screen.visit(index) } }
          end.countDown()
        }
        end.wait()
      },
    ]
  }

  /// Owners that come, add a job, and go when so many others have come.
  /// A hundred jobs of each owner, one owner after the other.
  private static func turns(_ name: String, _ fairness: OwnerFairness) -> Probe {
    Probe(name) { count in
      let queue = OwnerScopedQueue()
      queue.ownerFairness = fairness
      let screens = (0..<count / 100).map { _ in Screen() }
      for screen in screens {
        for index in 0..<100 { queue.async(owner: screen) { screen in screen.visit(index) } }
      }
      queue.waitUntilAllOperationsAreFinished()
    }
  }

  private static func barriers(_ name: String, owners: Int, hasJobs: Bool = false) -> Probe {
    Probe(name) { count in
      let queue = OwnerScopedQueue()
      let screens = (0..<owners).map { _ in Screen() }
      for index in 0..<count {
        if hasJobs { queue.async(owner: screens[0]) { $0.visit(index) } }
        queue.addBarrier(owner: screens[index % owners]) { $0.visit(index) }
      }
      queue.waitUntilAllOperationsAreFinished()
      withExtendedLifetime(screens) {}
    }
  }

  private static func passingOwners(_ name: String, alive: Int) -> Probe {
    Probe(name) { count in
      let queue = OwnerScopedQueue()
      var owners = (0..<min(alive, max(1, count / 3))).map { _ in TokenHolder() }
      for index in 0..<count {
        let owner = TokenHolder()
        queue.async(owner: owner) { owner in blackHole(owner) }
        owners[index % owners.count] = owner
      }
      queue.waitUntilAllOperationsAreFinished()
    }
  }

  private static func runNext(_ count: Int, queues: Int) {
    let queues = (0..<queues).map { _ in OwnerScopedQueue(maxConcurrentOperationCount: 1) }
    let screen = Screen()
    let end = Countdown(from: 1)
    Benchmark.add(0, of: count, screen, to: queues, end)
    end.wait()
  }

  /// Building and running a graph.
  static var graphs: [Probe] {
    [
      Probe("graph-chain") { count in _ = try GraphShape.chain(count).graph(on: OwnerScopedQueue()).sample() },
      Probe("graph-tree") { count in _ = try GraphShape.tree(count).graph(on: OwnerScopedQueue()).sample() },
      Probe("onetbb-chain") { count in _ = try OneTBB.flowGraph(.chain(count)).sample() },
      Probe("onetbb-tree") { count in _ = try OneTBB.flowGraph(.tree(count)).sample() },
    ]
  }
}

extension JobRunner {
  fileprivate func runOnce(jobs: Int) throws { _ = try contender(jobs: jobs).sample() }
}
