import Dispatch
import OwnedOperations

extension Benchmark {
  static var serialQueues: Benchmark {
    Benchmark("P15-serial-queues", "many serial queues; the life of one") { session in
      try session.compareSerialQueuesInTurn(1000, jobs: session.pick(200_000, quick: 10_000), target: .ratio(atMost: 0.8))
      let screen = Screen()
      let peerScreen = Screen()
      let lives = session.pick(20_000, quick: 1000)
      try session.compare(
        "create, one job, drain, free", count: lives, pairs: session.pick(7, quick: 2),
        ours: Contender("OwnerScopedQueue of limit 1", operations: lives) {
          for index in 0..<lives {
            let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
            queue.async(owner: screen) { screen in screen.visit(index) }
            queue.waitUntilAllOperationsAreFinished()
          }
          try screen.checkVisits(lives)
        },
        peer: Contender("GCD serial queue", operations: lives) {
          for index in 0..<lives {
            let queue = DispatchQueue(label: "life")
            queue.async { peerScreen.visit(index) }
            queue.sync {}
          }
          try peerScreen.checkVisits(lives)
        }, target: .ratio(atMost: 1))
    }
  }

  static var serialNext: Benchmark {
    Benchmark("P16-serial-next", "a job of a serial queue adds the next: to the same queue, to another in turn") { session in
      let count = session.pick(200_000, quick: 10_000)
      for (workload, queueCount, limit) in [("the next job", 1, 0.6), ("ping-pong between two queues", 2, 0.7)] {
        let queues = (0..<queueCount).map { _ in OwnerScopedQueue(maxConcurrentOperationCount: 1) }
        let dispatches = (0..<queueCount).map { DispatchQueue(label: "serial \($0)") }
        let screen = Screen()
        let peerScreen = Screen()
        try session.compare(
          "\(workload), \(count.jobs)", count: count, pairs: session.pick(7, quick: 2),
          ours: Contender("async(owner:)") {
            let end = Countdown(from: 1)
            let cost = nanoseconds(per: count) {
              add(0, of: count, screen, to: queues, end)
              end.wait()
            }
            try screen.checkVisits(count)
            return cost
          },
          peer: Contender("GCD serial async") {
            let end = Countdown(from: 1)
            let cost = nanoseconds(per: count) {
              add(0, of: count, peerScreen, to: dispatches, end)
              end.wait()
            }
            try peerScreen.checkVisits(count)
            return cost
          }, target: .ratio(atMost: limit))
      }
    }
  }

  static func add(_ index: Int, of count: Int, _ screen: Screen, to queues: [OwnerScopedQueue], _ end: Countdown) {
    queues[index % queues.count].async(owner: screen) { screen in
      screen.visit(index)
      guard index + 1 < count else { return end.countDown() }
      add(index + 1, of: count, screen, to: queues, end)
    }
  }

  private static func add(_ index: Int, of count: Int, _ screen: Screen, to queues: [DispatchQueue], _ end: Countdown) {
    queues[index % queues.count].async {
      screen.visit(index)
      guard index + 1 < count else { return end.countDown() }
      add(index + 1, of: count, screen, to: queues, end)
    }
  }
}

extension Session {
  /// So many serial queues, to which jobs are added in turn, next to GCD's.
  func compareSerialQueuesInTurn(_ queueCount: Int, jobs count: Int, target: Target? = nil) throws {
    let queues = (0..<queueCount).map { _ in OwnerScopedQueue(maxConcurrentOperationCount: 1) }
    let dispatches = (0..<queueCount).map { DispatchQueue(label: "serial \($0)") }
    let screen = Screen()
    let peerScreen = Screen()
    try compare(
      "\(queueCount.short) queues in turn, \(count.jobs)", count: count, pairs: pick(7, quick: 2),
      ours: Contender("async(owner:)") {
        let cost = nanoseconds(per: count) {
          for index in 0..<count {
            queues[index % queueCount].async(owner: screen) { screen in screen.visit(index) }
          }
          for queue in queues { queue.waitUntilAllOperationsAreFinished() }
        }
        try screen.checkVisits(count)
        return cost
      },
      peer: Contender("GCD serial async") {
        let cost = nanoseconds(per: count) {
          for index in 0..<count { dispatches[index % queueCount].async { peerScreen.visit(index) } }
          for queue in dispatches { queue.sync {} }
        }
        try peerScreen.checkVisits(count)
        return cost
      }, parameter: .init(name: "queues", value: Double(queueCount)), target: target)
  }
}
