import Foundation
import Testing

@testable import OwnedOperations

@Suite struct WorkerParkingTests {
  private final class Place: Sendable {
    let parking = WorkerParking()
    private let parked = DispatchSemaphore(value: 0)
    private let gone = DispatchSemaphore(value: 0)
    private let wasCalled = Mutexed(false)

    func call() -> Bool { parking.call() }

    /// Parks a thread, and returns when it is parked.
    func parkThread() -> Bool {
      Thread.detachNewThread { [self] in
        wasCalled.value = parking.park(for: .seconds(600), atMost: .max) { self.parked.signal() }
        gone.signal()
      }
      return parked.waitUntilSignalled()
    }

    /// What `park` has returned; nil if it has not.
    func result() -> Bool? { gone.waitUntilSignalled() ? wasCalled.value : nil }
  }

  @Test func parkedThreadIsCalled() {
    let place = Place()
    for _ in 0..<3 {
      place.parking.begin()
      #expect(place.parkThread())
      #expect(place.call())
      #expect(place.result() == true)
    }
  }

  @Test func threadThatWasCalledBeforeItCouldParkGoes() {
    let place = Place()
    place.parking.begin()
    #expect(!place.call())
    let wasCalled = place.parking.park { Issue.record("parked") }
    #expect(!wasCalled)
  }

  /// It was called when it was about to park, but a new thread has come instead of it.
  @Test func threadParksBesideAnotherThatRunsTheWorker() {
    let place = Place()
    place.parking.begin()
    #expect(!place.call())
    place.parking.begin()
    #expect(place.parkThread())
    #expect(place.call())
    #expect(place.result() == true)
  }

  @Test func threadThatIsCalledBeforeItWaitsDoesNotWait() {
    let place = Place()
    place.parking.begin()
    let wasCalled = place.parking.park(for: .seconds(600), atMost: .max) { #expect(place.call()) }
    #expect(wasCalled)
  }

  @Test func threadThatHasGivenUpIsNotFoundByACall() {
    let place = Place()
    place.parking.begin()
    let wasCalled = place.parking.park(for: .nanoseconds(1))
    #expect(!wasCalled)
    #expect(!place.call())
  }

  @Test func dismissedThreadGoesAndStaysAway() {
    let place = Place()
    place.parking.begin()
    #expect(place.parkThread())
    place.parking.dismiss()
    #expect(place.result() == false)
    let wasCalled = place.parking.park { Issue.record("parked") }
    #expect(!wasCalled)
  }

  /// A call and the instant in which the thread gives up: the caller and the thread always agree on who goes on.
  @Test func callerAndThreadAgree() {
    let place = Place()
    for _ in 0..<20_000 {
      place.parking.begin()
      let found = Mutexed(false)
      let wasCalled = Mutexed(false)
      DispatchQueue.concurrentPerform(iterations: 2) { side in
        if side == 0 { wasCalled.value = place.parking.park(for: .nanoseconds(0), atMost: .max) } else { found.value = place.call() }
      }
      guard found.value == wasCalled.value else {
        Issue.record("found: \(found.value), called: \(wasCalled.value)")
        return
      }
    }
  }

  @Test func fewThreadsAreParked() {
    let places = (0...WorkerParking.most).map { _ in Place() }
    let stays = DispatchSemaphore(value: 0)
    let isDecided = DispatchSemaphore(value: 0)
    let parked = Counter()
    for place in places {
      place.parking.begin()
      Thread.detachNewThread {
        let wasCalled = place.parking.park(for: .seconds(600)) {
          parked.add()
          isDecided.signal()
        }
        if !wasCalled { isDecided.signal() }
        stays.signal()
      }
    }
    for _ in places { #expect(isDecided.waitUntilSignalled()) }
    // Workers of other tests may be parked, too.
    #expect(parked.value <= WorkerParking.most)
    for place in places { _ = place.call() }
    for _ in places { #expect(stays.waitUntilSignalled()) }
  }

  @Test func queueThatGoesDismissesItsWorkers() {
    let queue = Weakly<OwnerScopedQueue>()
    let worker = Mutexed<Worker?>(nil)
    do {
      let made = OwnerScopedQueue()
      queue.object = made
      made.async(lifetime: .forTests) { worker.value = Worker.current }
      #expect(made.becomesIdle())
    }
    #expect(worker.value != nil)
    // Whoever lets go of the queue last may be the worker's thread.
    #expect(returns { while queue.object != nil || worker.value?.parking.isDismissed != true { sched_yield() } })
  }

  @Test func workersOfAnOlderMakeAreDismissed() {
    let queue = OwnerScopedQueue()
    let worker = Mutexed<Worker?>(nil)
    queue.async(lifetime: .forTests) { worker.value = Worker.current }
    #expect(queue.becomesIdle())
    queue.qualityOfService = .utility
    #expect(returns { while worker.value?.parking.isDismissed != true { sched_yield() } })
    let ran = DispatchSemaphore(value: 0)
    queue.async(lifetime: .forTests) { ran.signal() }
    #expect(ran.waitUntilSignalled())
  }
}
