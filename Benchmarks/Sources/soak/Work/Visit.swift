import Foundation
import OwnedOperations

/// The life of one owner: it is made, gets jobs and a few things that are rarer and cost more, and ends in one of several ways.
struct Visit {
  let world: World
  let operations: Int
  /// Some owners live on until the round is over.
  var keepsSome = true

  private static let tallySize = 64
  private static let rareness = 32

  /// - Returns: the owner, if it is to live on until all of its work is done.
  func run(_ random: inout SplitMix, _ ends: inout Latencies) -> OwnerBox? {
    let mark = OwnerMark()
    let parent: OwnerLifetime? = random.isOnce(in: 8) ? OwnerLifetime() : nil
    let box = OwnerBox(makeOwner(parent: parent, &random))
    world.ledger.owners.add(parent == nil ? 1 : 2, ordering: .relaxed)
    let chores = Chores(world: world, mark: mark)
    if operations > 4 || random.isOnce(in: 4) { chores.common(for: box, &random) }
    let added = addJobs(operations / 2 + random.below(operations + 1), of: box, mark, &random)
    if random.isOnce(in: Self.rareness) { chores.rare(for: box, &random) }
    return end(box, mark, parent, added, &random, &ends)
  }

  private func makeOwner(parent: OwnerLifetime?, _ random: inout SplitMix) -> Owner {
    if parent != nil { return .token(TokenOwner(parent: parent)) }
    return switch random.below(8) {
    case 0: .object(PlainOwner())
    case 1: .bare(OwnerLifetime())
    default: .token(TokenOwner())
    }
  }

  private struct Added {
    let tally: Tally
    let queue: CheckedQueue
  }

  private func addJobs(_ count: Int, of box: OwnerBox, _ mark: OwnerMark, _ random: inout SplitMix) -> [Added] {
    var added: [Added] = []
    var left = count
    while left > 0 {
      let (queue, count) = (world.queues.any(&random), min(left, Self.tallySize))
      let tally = Tally(count, for: mark, in: queue.record, world.ledger)
      box.owner?.addJobs(0..<count, of: tally, to: queue, random.priority())
      added.append(Added(tally: tally, queue: queue))
      left -= count
    }
    return added
  }

  // MARK: Ends

  private func end(
    _ box: OwnerBox, _ mark: OwnerMark, _ parent: OwnerLifetime?, _ added: [Added], _ random: inout SplitMix, _ ends: inout Latencies
  ) -> OwnerBox? {
    switch random.below(16) {
    case 0 where keepsSome: return box
    case 0...3: waitForAll(added, of: box)
    case 4...6: endByHand(parent ?? box.owner?.lifetime, of: box, mark, &random, &ends)
    case 7: dropInBody(box, mark, &random)
    default: break
    }
    mark.isExpendable.store(true, ordering: .releasing)
    ends.measure { box.empty() }
    return nil
  }

  private func waitForAll(_ added: [Added], of box: OwnerBox) {
    guard let lifetime = box.owner?.lifetime else { return }
    for each in added {
      each.queue.queue.waitUntilFinished(ownedBy: lifetime)
      each.tally.checkIsComplete()
    }
  }

  /// The owner's, or that of its parent. Nothing that comes for the owner afterwards may start.
  private func endByHand(
    _ lifetime: OwnerLifetime?, of box: OwnerBox, _ mark: OwnerMark, _ random: inout SplitMix, _ ends: inout Latencies
  ) {
    mark.isExpendable.store(true, ordering: .releasing)
    ends.measure { lifetime?.end() }
    mark.ordinalAtEnd.store(world.queues.serial.record.ordinal.load(ordering: .acquiring), ordering: .releasing)
    if box.owner?.lifetime.isAlive ?? false { world.ledger.report("an owner is alive after its end, or its parent's, has returned") }
    let queue = world.queues.any(&random)
    box.owner?.addJobs(0..<1, of: Tally(1, for: mark, in: queue.record, world.ledger, .none), to: queue, .veryHigh)
  }

  /// A body of somebody else's lets the owner go.
  private func dropInBody(_ box: OwnerBox, _ mark: OwnerMark, _ random: inout SplitMix) {
    mark.isExpendable.store(true, ordering: .releasing)
    guard let owner = box.owner else { return }
    let (queue, inner) = (world.queues.any(&random), OwnerBox(owner))
    let tally = Tally(1, for: OwnerMark(), in: queue.record, world.ledger)
    queue.queue.addOperation {
      tally.run(0)
      inner.empty()
    }
  }
}
