import Dispatch
import Foundation
import OwnedOperations
import Synchronization

/// A way to run many short jobs on behalf of a screen.
///
/// Each is written as its users write it, with the cheapest way it has to wait for all.
struct JobRunner {
  let name: String
  /// Adds the jobs 0..<count from the calling thread, and returns when all have run.
  let run: (Screen, Int) -> Void
  /// The two halves of `run`, for those that several threads can add to.
  let halves: Halves?

  struct Halves {
    let add: @Sendable (Screen, Range<Int>) -> Void
    let wait: () -> Void
  }

  init(name: String, run: @escaping (Screen, Int) -> Void) {
    self.name = name
    self.run = run
    halves = nil
  }

  init(name: String, add: @escaping @Sendable (Screen, Range<Int>) -> Void, wait: @escaping () -> Void) {
    self.name = name
    run = { screen, count in
      add(screen, 0..<count)
      wait()
    }
    halves = Halves(add: add, wait: wait)
  }

  /// Running and waiting for so many jobs, in nanoseconds per job.
  func contender(jobs: Int) -> Contender {
    let screen = Screen()
    return Contender(name) {
      let cost = nanoseconds(per: jobs) { run(screen, jobs) }
      try screen.checkVisits(jobs)
      return cost
    }
  }
}

extension JobRunner {
  // MARK: Ours

  static func ours() -> JobRunner {
    let queue = OwnerScopedQueue(name: "ours")
    return JobRunner(name: "async(owner:)") { screen, range in
      for index in range {
        queue.async(owner: screen) { screen in screen.visit(index) }
      }
    } wait: {
      queue.waitUntilAllOperationsAreFinished()
    }
  }

  static func oursOnGCD() -> JobRunner {
    let queue = DispatchQueue(label: "owner", attributes: .concurrent)
    return JobRunner(name: "DispatchQueue.async(owner:)") { screen, range in
      for index in range {
        queue.async(owner: screen) { screen in screen.visit(index) }
      }
    } wait: {
      queue.sync(flags: .barrier) {}
    }
  }

  static func ownedOperations() -> JobRunner {
    let queue = OwnerScopedQueue(name: "operations")
    return JobRunner(name: "OwnedBlockOperation") { screen, range in
      for index in range {
        queue.addOperation(
          OwnedBlockOperation(owner: screen) { [weak screen] in
            guard let screen else { return }
            screen.visit(index)
          })
      }
    } wait: {
      queue.waitUntilAllOperationsAreFinished()
    }
  }

  // MARK: GCD

  /// Nothing is checked, and the screen is kept alive.
  static func gcd() -> JobRunner {
    let queue = DispatchQueue(label: "gcd", attributes: .concurrent)
    return JobRunner(name: "GCD async") { screen, range in
      for index in range {
        queue.async { screen.visit(index) }
      }
    } wait: {
      queue.sync(flags: .barrier) {}
    }
  }

  static func gcdWithWeakCheck() -> JobRunner {
    let queue = DispatchQueue(label: "weak", attributes: .concurrent)
    return JobRunner(name: "GCD, weak check") { screen, range in
      for index in range {
        queue.async { [weak screen] in
          guard let screen else { return }
          screen.visit(index)
        }
      }
    } wait: {
      queue.sync(flags: .barrier) {}
    }
  }

  static func safeDispatch() -> JobRunner {
    let queue = DispatchQueue(label: "safe", attributes: .concurrent)
    let identifier = SafeDispatch.shared.register()
    return JobRunner(name: "safe-dispatch wrapper") { screen, range in
      for index in range {
        queue.safeAsync(identifier) { [weak screen] in screen?.visit(index) }
      }
    } wait: {
      queue.sync(flags: .barrier) {}
    }
  }

  // MARK: OperationQueue

  static func operationQueue() -> JobRunner {
    let queue = OperationQueue()
    return JobRunner(name: "OperationQueue, BlockOperation") { screen, range in
      for index in range {
        queue.addOperation(
          BlockOperation { [weak screen] in
            guard let screen else { return }
            screen.visit(index)
          })
      }
    } wait: {
      queue.waitUntilAllOperationsAreFinished()
    }
  }

  // MARK: Swift concurrency

  /// Detached tasks can't be waited for together, so the last one says so.
  static func detachedTasks() -> JobRunner {
    JobRunner(name: "Task.detached") { screen, count in
      let countdown = Countdown(from: count)
      for index in 0..<count {
        Task.detached { [weak screen] in
          if let screen { screen.visit(index) }
          countdown.countDown()
        }
      }
      countdown.wait()
    }
  }

  /// The calling thread only waits; the tasks are added by one task.
  static func discardingTaskGroup() -> JobRunner {
    JobRunner(name: "discarding task group") { screen, count in
      let countdown = Countdown(from: 1)
      Task.detached {
        await withDiscardingTaskGroup { group in
          for index in 0..<count {
            group.addTask { [weak screen] in
              guard let screen else { return }
              screen.visit(index)
            }
          }
        }
        countdown.countDown()
      }
      countdown.wait()
    }
  }
}
