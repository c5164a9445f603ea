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

  @Test func deliveriesBehindOneThatWasCancelledGoOn() {
    // The first stands in front of its line, but not in the queue: that is the other way round.
    let jobs = Mutexed<[@Sendable () -> Void]>([])
    defer { jobs.value = [] }  // they hold the line, which holds them
    let line = DeliveryLine { job in jobs.value.append(job) }
    let handler = ObservationHandler(line) { [journal] in journal.write(Self.number($0)) }
    let observation = OwnedObservation(.first, nil, lifetime, .normal, handler)
    for number in 0..<3 { observation.hear(Notification(name: .first, userInfo: ["number": number])) }
    jobs.value[1]()
    #expect(journal.entries.isEmpty)
    jobs.value = Array(jobs.value.dropFirst())  // the first was cancelled
    #expect(jobs.value.count == 3)  // the second has a new job, behind the third
    jobs.value[1]()
    #expect(journal.entries.isEmpty)
    jobs.value[2]()
    #expect(journal.entries == [1, 2])
    jobs.value = []
    #expect(line.count == 0)
  }

  @Test func deliveriesWaitForThoseBefore() {
    let jobs = Mutexed<[@Sendable () -> Void]>([])
    defer { jobs.value = [] }  // they hold the line, which holds them
    let line = DeliveryLine { job in jobs.value.append(job) }
    let handler = ObservationHandler(line) { [journal] in journal.write(Self.number($0)) }
    let observation = OwnedObservation(.first, nil, lifetime, .normal, handler)
    for number in 0..<3 { observation.hear(Notification(name: .first, userInfo: ["number": number])) }
    jobs.value[2]()
    jobs.value[1]()
    #expect(journal.entries.isEmpty)
    jobs.value[0]()
    #expect(journal.entries == [0, 1, 2] && line.count == 0)
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
