extension Benchmark {
  static var feed: Benchmark {
    Benchmark("feed", "a feed is scrolled faster than its pictures can be decoded: work that nobody wants any more") { session in
      let scroll = Scroll(cellCount: session.pick(10_000, quick: 800))
      let pictures = PictureLibrary()
      let ours = OwnedFeed(.roundRobin)
      let peers: [any FeedEngine] = [
        PlainGCDFeed(), CheckingGCDFeed(), SafeDispatchFeed(), OperationQueueFeed(), OwnedFeed(.firstComeFirstServed),
      ]

      // All engines in turn, round by round, after a short scroll that doesn't count.
      for engine in [ours] + peers { _ = try Scroll(cellCount: 2 * Scroll.visibleCells).run(on: engine, pictures: pictures) }
      var oursCosts: [Scroll.Cost] = []
      var peerCosts = [[Scroll.Cost]](repeating: [], count: peers.count)
      for _ in 0..<session.pick(3, quick: 1) {
        oursCosts.append(try scroll.run(on: ours, pictures: pictures))
        for (index, peer) in peers.enumerated() { peerCosts[index].append(try scroll.run(on: peer, pictures: pictures)) }
      }

      let workload = "\(scroll.cellCount.short) cells"
      let figures: [(String, String, (Scroll.Cost) -> Double)] = [
        ("total CPU time", "s", \.cpuSeconds),
        ("until the last visible cell is done", "ms", \.millisecondsToLastVisibleCell),
        ("pictures decoded", "pictures", { Double($0.decoded) }),
      ]
      for (what, unit, figure) in figures {
        for (peer, costs) in zip(peers, peerCosts) {
          session.record(
            "\(workload), \(what)", unit: unit, count: scroll.cellCount * Cell.pictureCount, ours: ours.name, oursCosts.map(figure),
            peer: peer.name, costs.map(figure))
        }
      }
    }
  }
}
