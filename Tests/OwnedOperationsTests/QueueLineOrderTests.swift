import Foundation
import Testing

@testable import OwnedOperations

/// First come, first served, among an owner's jobs and its lines of deliveries.
@Suite struct QueueLineOrderTests {
  private let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
  private let lifetime = OwnerLifetime()
  private let order = Journal<Int>()

  private func add(_ number: Int, to line: SerialLine?) {
    guard let line else { return queue.async(lifetime: lifetime) { [order] in order.write(number) } }
    line.add { [order] in
      order.write(number)
      return nil
    }
  }

  private enum Hindrance: CaseIterable {
    case suspension, suspensionWhileOthersWait, limit, limitWhileOthersWait
  }

  @Test(arguments: Hindrance.allCases) private func whatHadToWaitForItsOwnerComesInItsOldOrder(_ hindrance: Hindrance) {
    let queue = queue
    let (lines, gate, other) = ((0..<3).map { _ in SerialLine(queue, lifetime) }, Gate(), OwnerLifetime())
    let isLimit = hindrance == .limit || hindrance == .limitWhileOthersWait
    queue.maxConcurrentOperationCount = 2
    if isLimit { queue.maxConcurrentOperationCountPerOwner = 1 } else { queue.setSuspended(true, ownedBy: lifetime) }
    // Holds one of two permits, and with a limit that of its owner, until all is there.
    queue.async(lifetime: isLimit ? lifetime : other) { gate.pass() }
    #expect(gate.hasBegun())
    if hindrance == .limitWhileOthersWait || hindrance == .suspensionWhileOthersWait {
      queue.setSuspended(true, ownedBy: other)
      queue.async(lifetime: other) {}
    }
    for number in 0..<20 { add(number, to: [nil, lines[2], lines[0], nil, lines[1], lines[1], lines[0]][number % 7]) }
    queue.setSuspended(false, ownedBy: other)
    // All that is not held has run, so a worker has come to what is.
    #expect(eventually { queue.snapshot.readyCount == 0 })
    #expect(order.entries.isEmpty)
    if isLimit { gate.open() }
    queue.maxConcurrentOperationCount = 1
    queue.setSuspended(false, ownedBy: lifetime)
    gate.open()
    #expect(queue.becomesIdle())
    #expect(order.entries == Array(0..<20))
  }

  /// All of them would be held again, one by one, by each worker that comes to them: for each delivery as much work as deliveries wait.
  @Test func ofALineThatGoesOnOnlyTheOldestComesBack() {
    let (queue, order) = (queue, order)
    let (lines, gate) = ((0..<2).map { _ in SerialLine(queue, lifetime) }, Gate())
    queue.maxConcurrentOperationCount = 2
    lines[0].add {
      gate.pass()
      return nil
    }
    #expect(gate.hasBegun())
    for number in 0..<100 { add(number, to: lines[number % 2]) }
    // Those of the other line have run, and those of this one were come to.
    #expect(eventually { order.entries.count == 50 && queue.snapshot.readyCount == 0 })
    queue.isSuspended = true
    gate.open()
    #expect(eventually { queue.snapshot.activeWorkers == 0 })
    #expect(queue.snapshot.readyCount == 1)
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(order.entries.filter { $0 % 2 == 0 } == Array(stride(from: 0, to: 100, by: 2)))
  }

  /// It was held before its line ran on, and nobody has come to it since.
  @Test func aDeliveryWhoseOwnerWasSuspendedDoesNotWaitForTheRemainsOfTheOneBefore() {
    final class Remains: Sendable {
      let gate: Gate
      init(_ gate: Gate) { self.gate = gate }
      deinit { gate.pass() }
    }
    let order = order
    let (line, body, remains) = (SerialLine(queue, lifetime), Gate(), Gate())
    line.add {
      body.pass()
      return Remains(remains)
    }
    #expect(body.hasBegun())
    queue.setSuspended(true, ownedBy: lifetime)
    add(1, to: line)
    queue.setSuspended(false, ownedBy: lifetime)
    body.open()
    #expect(remains.hasBegun())
    #expect(eventually { order.entries == [1] })
    remains.open()
    #expect(queue.becomesIdle())
  }

  /// The second of the line comes up, and is held, while a worker has the job that was added before.
  @Test func whatIsGivenBackComesBeforeADeliveryThatWasAddedLater() {
    let (line, gate, queue) = (SerialLine(queue, lifetime), Gate(), queue)
    line.add {
      gate.pass()
      return nil
    }
    #expect(gate.hasBegun())
    queue.isSuspended = true
    add(0, to: nil)
    add(1, to: line)
    #expect(queue.takeAndGiveBack([1, 1]) == [1, 0])
    gate.open()
    #expect(eventually { queue.snapshot.activeWorkers == 0 })
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(order.entries == [0, 1])
  }

  /// Whatever is suspended, resumed, limited, taken and given back meanwhile.
  @Test func eachOwnersWorkComesInItsOrder() {
    var random = SplitMix(state: 7)
    for _ in 0..<100 {
      let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
      let owners = (0..<3).map { _ in OwnerLifetime() }
      let lines = owners.map { owner in (0..<2).map { _ in SerialLine(queue, owner) } }
      let orders = owners.map { _ in Journal<Int>() }
      queue.isSuspended = true
      for number in 0..<60 {
        let owner = Int.random(in: 0..<3, using: &random)
        switch Int.random(in: 0..<10, using: &random) {
        case 0: queue.setSuspended(true, ownedBy: owners[owner])
        case 1: queue.setSuspended(false, ownedBy: owners[owner])
        case 2: queue.maxConcurrentOperationCountPerOwner = [-1, 1, 2][owner]
        case 3: queue.takeAndGiveBack((0..<3).map { _ in Int.random(in: 1..<5, using: &random) })
        case 4..<7:
          queue.async(lifetime: owners[owner]) { [order = orders[owner]] in order.write(number) }
        default:
          lines[owner][number % 2].add { [order = orders[owner]] in
            order.write(number)
            return nil
          }
        }
      }
      for owner in owners { queue.setSuspended(false, ownedBy: owner) }
      queue.maxConcurrentOperationCountPerOwner = -1
      queue.isSuspended = false
      #expect(queue.becomesIdle())
      for order in orders { #expect(order.entries == order.entries.sorted()) }
    }
  }

  // MARK: What a delivery leaves

  private enum Remains: CaseIterable {
    case blocksInWhatItReturns, computesInWhatItReturns, blocksInWhatItCaptured
  }

  /// The delivery is over, whatever the deinits of what it leaves do.
  @Test(arguments: Remains.allCases) private func whatADeliveryLeavesHoldsUpNoneOfItsLine(_ remains: Remains) {
    let line = SerialLine(OwnerScopedQueue(), lifetime)
    let (begun, mayGo, next) = (Event(), Event(), Event())
    let deinitProbe = DeinitProbe {
      begun.happen()
      // That it gave up, and the next came then, is no success.
      if remains == .computesInWhatItReturns { while !mayGo.isPast {} } else { #expect(mayGo.happens()) }
    }
    if remains == .blocksInWhatItCaptured {
      // Who adds it holds it until the call returns, and may be slower than a worker: the deinit would be on this thread.
      let isAdded = DispatchSemaphore(value: 0)
      line.add { [deinitProbe = consume deinitProbe] in
        isAdded.wait()
        withExtendedLifetime(deinitProbe) {}
        return nil
      }
      isAdded.signal()
    } else {
      let box = Mutexed<DeinitProbe?>(consume deinitProbe)
      line.add {
        defer { box.value = nil }
        return box.value
      }
    }
    #expect(begun.happens())
    line.add {
      next.happen()
      return nil
    }
    #expect(next.happens())
    mayGo.happen()
  }
}
