import Dispatch
import OwnedOperations
import Synchronization

extension Benchmark {
  static var ownersInTurn: Benchmark {
    Benchmark("P14-owners-in-turn", "jobs of many owners, who take turns in adding") { session in
      let count = session.pick(1_000_000, quick: 50_000)
      for owners in [1000, 10_000, 100_000] {
        try session.compareOwnersInTurn(owners, jobs: count, target: owners == 1000 ? nil : .ratio(atMost: 0.8))
      }
    }
  }

  static var passingOwners: Benchmark {
    Benchmark("P19-passing-owners", "owners that come, add one job, and go when so many others have come") { session in
      let count = session.pick(200_000, quick: 10_000)
      for alive in [1, 1000, 100_000] {
        let queue = OwnerScopedQueue()
        let dispatch = DispatchQueue(label: "passing", attributes: .concurrent)
        // The first sample, which doesn't count, fills the places as far as it comes.
        var owners = (0..<alive).map { _ in TokenHolder() }
        var objects = (0..<alive).map { _ in PlainOwner() }
        var next = 0
        var peerNext = 0
        let (ran, peerRan) = (Share(), Share())
        try session.compare(
          "\(alive.short) alive, \(count.short) come and go", count: count, pairs: session.pick(5, quick: 1),
          ours: Contender("async(owner:)", operations: count) {
            for index in 0..<count {
              let owner = TokenHolder()
              queue.async(owner: owner) { owner in
                blackHole(owner)
                ran.note(index)
              }
              owners[next] = owner
              next = (next + 1) % alive
            }
            queue.waitUntilAllOperationsAreFinished()
            ran.take(of: count)
          },
          peer: Contender("GCD, weak check, plain objects", operations: count) {
            for index in 0..<count {
              let object = PlainOwner()
              dispatch.async { [weak object] in
                guard let object else { return }
                blackHole(object)
                peerRan.note(index)
              }
              objects[peerNext] = object
              peerNext = (peerNext + 1) % alive
            }
            dispatch.sync(flags: .barrier) {}
            peerRan.take(of: count)
          }, parameter: .init(name: "alive", value: Double(alive)), target: .ratio(atMost: 1))
        // Who runs fewer, because owners were gone, has less to do.
        session.record(
          "the same, jobs that ran", unit: "%", count: count, ours: "async(owner:)", ran.samples, peer: "GCD, weak check, plain objects",
          peerRan.samples)
      }
    }
  }
}

extension Session {
  /// So many owners, who take turns in adding jobs, next to GCD's weak check.
  func compareOwnersInTurn(_ ownerCount: Int, jobs count: Int, target: Target? = nil) throws {
    let screens = (0..<ownerCount).map { _ in Screen() }
    let peerScreens = (0..<ownerCount).map { _ in Screen() }
    let queue = OwnerScopedQueue()
    let dispatch = DispatchQueue(label: "weak", attributes: .concurrent)
    try compare(
      "\(ownerCount.short) owners, \(count.jobs)", count: count, pairs: pick(5, quick: 1),
      ours: Contender("async(owner:)") {
        let cost = nanoseconds(per: count) {
          for index in 0..<count {
            queue.async(owner: screens[index % ownerCount]) { screen in screen.visit(index) }
          }
          queue.waitUntilAllOperationsAreFinished()
        }
        try WrongResult.check(screens.reduce(0) { $0 + $1.takeVisits() }, is: Screen.visits(of: count), "counted jobs")
        return cost
      },
      peer: Contender("GCD, weak check") {
        let cost = nanoseconds(per: count) {
          for index in 0..<count {
            dispatch.async { [weak screen = peerScreens[index % ownerCount]] in
              guard let screen else { return }
              screen.visit(index)
            }
          }
          dispatch.sync(flags: .barrier) {}
        }
        try WrongResult.check(peerScreens.reduce(0) { $0 + $1.takeVisits() }, is: Screen.visits(of: count), "counted jobs")
        return cost
      }, parameter: .init(name: "owners", value: Double(ownerCount)), target: target)
  }
}

private final class PlainOwner: Sendable {}

/// How many of a sample's jobs ran, found by every 64th, so that threads don't fight for a counter.
private final class Share: Sendable {
  private let noted = Atomic<Int>(0)
  // Of the thread that measures.
  nonisolated(unsafe) private(set) var samples: [Double] = []

  func note(_ index: Int) { if index & 63 == 0 { noted.add(1, ordering: .relaxed) } }

  /// In percent of the sample that has ended.
  func take(of count: Int) {
    samples.append(Double(noted.exchange(0, ordering: .acquiringAndReleasing)) * 100 / Double((count + 63) / 64))
  }
}
