import Foundation
import Testing

@testable import OwnedOperations

/// Handlers that run on a queue.
@Suite struct ObserverDeliveryTests {
  private let center = NotificationCenter()
  private let queue = OwnerScopedQueue()
  private let lifetime = OwnerLifetime()
  private let journal = Journal<Int>()

  private func post(_ number: Int) { center.post(name: .first, object: nil, userInfo: ["number": number]) }

  private static func number(_ notification: Notification) -> Int { notification.userInfo?["number"] as? Int ?? -1 }

  private func observe(_ body: @escaping @Sendable (Int) -> Void = { _ in }) -> OwnedObservation {
    center.observe(.first, lifetime: lifetime, on: queue) { [journal] notification in
      body(Self.number(notification))
      journal.write(Self.number(notification))
    }
  }

  @Test func aPostDoesNotWait() {
    let gate = Gate()
    _ = observe { if $0 == 0 { gate.pass() } }
    #expect(returns { self.post(0) })
    #expect(gate.hasBegun())
    #expect(returns { self.post(1) })
    #expect(journal.entries.isEmpty)
    gate.open()
    #expect(queue.becomesIdle())
    #expect(journal.entries == [0, 1])
  }

  @Test func deliveriesOfOneObservationAreSerialAndInOrder() {
    let running = Counter()
    _ = observe { _ in
      running.add()
      #expect(running.value == 1)
      running.add(-1)
    }
    let count = Sanitizer.isActive ? 500 : 5_000
    for number in 0..<count { post(number) }
    #expect(queue.becomesIdle())
    #expect(journal.entries == Array(0..<count))
  }

  @Test func observationsDoNotWaitForOneAnother() {
    let gate = Gate()
    let heard = DispatchSemaphore(value: 0)
    _ = observe { _ in gate.pass() }
    center.observe(.first, lifetime: lifetime, on: queue) { _ in heard.signal() }
    post(1)
    #expect(gate.hasBegun() && heard.comes())
    gate.open()
    #expect(queue.becomesIdle())
  }

  @Test func deliveriesAreJobsOfTheOwner() {
    queue.isSuspended = true
    _ = observe()
    for number in 0..<3 { post(number) }
    #expect(queue.operationCount(ownedBy: lifetime) == 3)
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(journal.entries == [0, 1, 2] && queue.statistics.succeeded == 3)
  }

  /// Handler 0 is under way, and 1 and 2 have had every chance to overtake it. Then comes the call, and handler 0 ends.
  private func deliver(on queue: OwnerScopedQueue, _ call: () -> Void) {
    let gate = Gate()
    center.observe(.first, lifetime: lifetime, on: queue) { [journal] notification in
      if Self.number(notification) == 0 { gate.pass() }
      journal.write(Self.number(notification))
    }
    post(0)
    #expect(gate.hasBegun())
    post(1)
    post(2)
    // There is one more permit, and the order is strict: when this one runs, those before it have had their turn.
    let marker = DispatchSemaphore(value: 0)
    queue.async(lifetime: .forTests) { marker.signal() }
    #expect(marker.comes())
    #expect(eventually { queue.operationCount == queue.operationCount(ownedBy: lifetime) })
    #expect(queue.operationCount(ownedBy: lifetime) == 3)
    call()
    let before = queue.operationCount(ownedBy: lifetime)
    gate.open()
    #expect(eventually { queue.operationCount(ownedBy: lifetime) < before })
    #expect(journal.entries == [0])
  }

  @Test func noDeliveryBeginsInASuspendedQueue() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
    deliver(on: queue) { queue.isSuspended = true }
    #expect(queue.operationCount(ownedBy: lifetime) == 2)
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(journal.entries == [0, 1, 2] && queue.statistics.succeeded == 4)
  }

  @Test func noDeliveryBeginsForASuspendedOwner() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
    deliver(on: queue) { queue.setSuspended(true, ownedBy: lifetime) }
    #expect(queue.operationCount(ownedBy: lifetime) == 2)
    queue.setSuspended(false, ownedBy: lifetime)
    #expect(queue.becomesIdle())
    #expect(journal.entries == [0, 1, 2])
  }

  @Test func deliveriesBehindOneThatRunsAreCancelled() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
    deliver(on: queue) { queue.cancelOperations(ownedBy: lifetime) }
    #expect(queue.becomesIdle())
    #expect(journal.entries == [0])
    post(3)
    #expect(queue.becomesIdle())
    #expect(journal.entries == [0, 3])
  }

  @Test func aCancellationDropsWhatWaitsAndNothingElse() {
    queue.isSuspended = true
    let observation = observe()
    for number in 0..<3 { post(number) }
    queue.cancelOperations(ownedBy: lifetime)
    DeferredReleases.waitUntilIdle()
    for number in 3..<5 { post(number) }
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(journal.entries == [3, 4] && observation.isValid)
  }

  /// An observation that delivers to a queue which does nothing by itself.
  private func observe(_ deliveries: Mutexed<[OwnedOperation]>) -> (OwnedObservation, DeliveryLine) {
    let line = DeliveryLine { delivery in deliveries.value.append(delivery) }
    let handler = ObservationHandler(line) { [journal] in journal.write(Self.number($0)) }
    return (OwnedObservation(.first, nil, lifetime, .normal, handler), line)
  }

  private static func notification(_ number: Int) -> Notification { Notification(name: .first, userInfo: ["number": number]) }

  @Test func deliveriesBehindOneThatWasCancelledGoOn() {
    let deliveries = Mutexed<[OwnedOperation]>([])
    let (observation, line) = observe(deliveries)
    for number in 0..<4 { observation.hear(Self.notification(number)) }
    let all = deliveries.value
    #expect(all.map(\.isReady) == [true, false, false, false])
    all[2].cancel()
    #expect(all.map(\.isReady) == [true, false, true, false])  // to be finished, as any that was cancelled
    all[0].cancel()
    #expect(all[1].isReady && !all[3].isReady)
    all[1].start()
    #expect(all[3].isReady)
    all[3].start()
    #expect(journal.entries == [1, 3] && line.count == 0)
    observation.invalidate()
  }

  @Test func deliveriesWaitForThoseBefore() throws {
    let deliveries = Mutexed<[OwnedOperation]>([])
    let (observation, line) = observe(deliveries)
    for number in 0..<3 { observation.hear(Self.notification(number)) }
    let all = deliveries.value
    #expect(throws: OwnerScopedQueueError.self) { try all[2].startOrThrow() }
    #expect(throws: OwnerScopedQueueError.self) { try all[1].startOrThrow() }
    for delivery in all { try delivery.startOrThrow() }
    #expect(journal.entries == [0, 1, 2] && line.count == 0)
    observation.invalidate()
  }

  @Test func noDeliveryBeginsAfterTheEnd() {
    queue.isSuspended = true
    let removed = observe()
    let other = OwnerLifetime()
    center.observe(.first, lifetime: other, on: queue) { [journal] _ in journal.write(-2) }
    post(0)
    removed.invalidate()
    other.end()
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(journal.entries.isEmpty)
  }

  @Test func theNotificationIsHeldUntilItIsDeliveredOrEnds() {
    queue.isSuspended = true
    let observation = observe()
    weak var object: Tokenless?
    func postObject() {
      let new = Tokenless()
      object = new
      center.post(name: .first, object: new)
    }
    postObject()
    #expect(object != nil)
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(object == nil)
    queue.isSuspended = true
    postObject()
    #expect(object != nil)
    observation.invalidate()
    #expect(object == nil)
    queue.isSuspended = false
    #expect(queue.becomesIdle())
  }

  @Test func anObservationThatEndedLetsGoOfItsQueue() {
    let reference = Weakly<OwnerScopedQueue>()
    let observation: OwnedObservation
    do {
      let new = OwnerScopedQueue()
      reference.object = new
      new.isSuspended = true
      observation = center.observe(.first, lifetime: lifetime, on: new) { _ in }
      post(0)
    }
    #expect(reference.object != nil)
    observation.invalidate()
    #expect(eventually { reference.object == nil })
  }

  @Test func theOwnerIsNotHeldByWhatWaits() {
    queue.isSuspended = true
    var owner: TokenOwner? = TokenOwner()
    let hasGone = goodbye(of: owner!)
    center.observe(.first, owner: owner!, on: queue) { [journal] _, _ in journal.write(0) }
    post(0)
    owner = nil
    #expect(hasGone.comes())
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(journal.entries.isEmpty)
  }

  @Test func theMainQueueDeliversOnTheMainActor() async {
    let event = Event()
    center.observe(.first, lifetime: lifetime, on: .main) { [journal] _ in
      MainActor.assumeIsolated { journal.write(1) }
      event.happen()
    }
    post(0)
    await event.awaited()
    #expect(journal.entries == [1])
  }
}
