extension Benchmark {
  static var locks: Benchmark {
    Benchmark("locks", "state that many read and few write: Protected next to other locks, an actor, a queue") { session in
      for (kind, length) in [("short", 1), ("long", Table.size)] {
        for threads in [1, 2, 8] {
          for writes in [0, 1, 10, 50] {
            let count = length == 1 ? session.pick(200_000, quick: 8_000) : session.pick(40_000, quick: 1_600)
            let use = TableUse(writes: writes, length: length, threads: threads, count: count)
            let peers = [
              use.contender(LockedTable.self), use.contender(MutexTable.self), use.contender(ReadWriteLockTable.self),
              use.contender(DispatchTable.self), use.actorContender(),
            ]
            for peer in peers {
              try session.compare(
                "\(kind) reads, \(writes) % writes, \(threads) threads", count: count, pairs: session.pick(5, quick: 1),
                ours: use.contender(ProtectedTable.self), peer: peer, parameter: .init(name: "writes", value: Double(writes)))
            }
          }
        }
      }
    }
  }
}
