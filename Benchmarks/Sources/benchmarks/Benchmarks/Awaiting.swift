import OwnedOperations

extension Benchmark {
  static var awaiting: Benchmark {
    Benchmark("P22-awaiting", "asynchronous bodies with an owner, awaited: one by one, and in a task group") { session in
      let queue = OwnerScopedQueue()
      let screen = Screen()
      let peerScreen = Screen()
      let single = session.pick(20_000, quick: 1000)
      try session.compare(
        "bodies one by one, \(single.short)", count: single, pairs: session.pick(7, quick: 2),
        ours: Contender("queue.run(owner:)", operations: single) {
          try awaited {
            for index in 0..<single { try await queue.run(owner: screen) { screen in screen.visit(index) } }
          }
          try screen.checkVisits(single)
        },
        peer: Contender("Task.detached.value", operations: single) {
          try awaited {
            for index in 0..<single { await Task.detached { peerScreen.visit(index) }.value }
          }
          try peerScreen.checkVisits(single)
        }, target: .ratio(atMost: 3))
      let grouped = session.pick(30_000, quick: 1500)
      try session.compare(
        "\(grouped.short) in a task group", count: grouped, pairs: session.pick(7, quick: 2),
        ours: Contender("queue.run(owner:)", operations: grouped) {
          try awaited {
            try await withThrowingTaskGroup(of: Void.self) { group in
              for index in 0..<grouped {
                group.addTask { try await queue.run(owner: screen) { screen in screen.visit(index) } }
              }
              try await group.waitForAll()
            }
          }
          try screen.checkVisits(grouped)
        },
        peer: Contender("task group", operations: grouped) {
          try awaited {
            try await withThrowingTaskGroup(of: Void.self) { group in
              for index in 0..<grouped { group.addTask { peerScreen.visit(index) } }
              try await group.waitForAll()
            }
          }
          try peerScreen.checkVisits(grouped)
        }, target: .ratio(atMost: 2.5))
    }
  }
}
