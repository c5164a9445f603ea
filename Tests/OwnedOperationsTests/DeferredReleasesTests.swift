import Foundation
import Testing

@testable import OwnedOperations

/// What is released in the background goes, whatever the deinits do.
@Suite struct DeferredReleasesTests {
  /// Objects whose deinits wait until they are told to end.
  private final class Blockers: Sendable {
    private let begun = DispatchSemaphore(value: 0)
    private let opened = DispatchSemaphore(value: 0)

    func make() -> DeinitProbe {
      DeinitProbe {
        self.begun.signal()
        self.opened.wait()
      }
    }

    func haveBegun(_ count: Int) -> Bool { (0..<count).allSatisfy { _ in begun.waitUntilSignalled() } }
    func open(_ count: Int) { for _ in 0..<count { opened.signal() } }
  }

  @Test func valuesAreReleasedOnceAndOnAnotherThread() {
    let relay = Relay()
    let caller = pthread_self()
    let elsewhere = Counter()
    for _ in 0..<1_000 { relay.release(DeinitProbe { if pthread_equal(pthread_self(), caller) == 0 { elsewhere.add() } }) }
    relay.waitUntilIdle()
    #expect(elsewhere.value == 1_000)
  }

  @Test func closuresAreReleasedAndNotCalled() {
    let gone = DispatchSemaphore(value: 0)
    do {
      let deinitProbe = DeinitProbe { gone.signal() }
      DeferredReleases.add { deinitProbe.mustNotRun() }
    }
    #expect(gone.waitUntilSignalled())
  }

  @Test func blockedDeinitsHoldUpNobodyHoweverMany() {
    let relay = Relay()
    let (blockers, count) = (Blockers(), 100)
    for _ in 0..<count { relay.release(blockers.make()) }
    let gone = DispatchSemaphore(value: 0)
    relay.release(DeinitProbe { gone.signal() })
    #expect(gone.waitUntilSignalled())
    #expect(blockers.haveBegun(count))
    #expect(!relay.isAtRest)
    blockers.open(count)
    relay.waitUntilIdle()
    // Threads that were replaced leave a moment after their last step was counted, at the latest by now: they are asked under the same
    // lock.
    #expect(returns { while relay.blockedThreadCount > 0 { Thread.sleep(forTimeInterval: 0.001) } })
  }

  @Test func theRestOfABatchWhoseThreadIsBlockedIsTakenOver() {
    let blockers = Blockers()
    let gone = DispatchSemaphore(value: 0)
    DeferredReleases.add(contentsOf: (0..<40).map { index in index.isMultiple(of: 4) ? blockers.make() : DeinitProbe { gone.signal() } })
    for _ in 0..<30 { #expect(gone.waitUntilSignalled()) }
    #expect(blockers.haveBegun(10))
    blockers.open(10)
    DeferredReleases.waitUntilIdle()
  }

  @Test func blockedDeinitThatIsLeftAloneNeedsNobodyUntilThereIsMore() {
    let relay = Relay()
    let blockers = Blockers()
    relay.release(blockers.make())
    #expect(blockers.haveBegun(1))
    // The watch takes the blocked thread out of its place, with nothing left to do.
    #expect(returns { while relay.blockedThreadCount == 0 { Thread.sleep(forTimeInterval: 0.001) } })
    let gone = DispatchSemaphore(value: 0)
    relay.release(DeinitProbe { gone.signal() })
    #expect(gone.waitUntilSignalled())
    #expect(!relay.isAtRest)
    blockers.open(1)
    relay.waitUntilIdle()
  }

  @Test func deinitsMayHandOverMoreAndWaitForIt() {
    let relay = Relay()
    let gone = DispatchSemaphore(value: 0)
    relay.release(
      DeinitProbe {
        let inner = DispatchSemaphore(value: 0)
        relay.release(DeinitProbe { inner.signal() })
        if inner.waitUntilSignalled() { gone.signal() }
      })
    #expect(gone.waitUntilSignalled())
    relay.waitUntilIdle()
  }

  @Test func whatManyThreadsHandOverIsReleasedOnceEach() {
    let relay = Relay()
    let count = Sanitizer.isActive ? 5_000 : 100_000
    let released = Counter()
    DispatchQueue.concurrentPerform(iterations: 4) { side in
      for index in 0..<count {
        if side == 0, index.isMultiple(of: 100) {
          relay.add(Steps(count: 10) { _ in released.add() })
        } else {
          relay.release(DeinitProbe { released.add() })
        }
      }
    }
    relay.waitUntilIdle()
    #expect(released.value == count * 4 + count / 100 * 9)
  }

  private final class Steps: RelayBatch, @unchecked Sendable {
    private let body: @Sendable (Int) -> Void
    init(count: Int, _ body: @escaping @Sendable (Int) -> Void) {
      self.body = body
      super.init(count: count)
    }
    override func takeStep(_ index: Int) { body(index) }
  }

  @Test func everyStepOfABatchIsTakenOnceAndAnEmptyBatchIsNone() {
    let relay = Relay()
    let taken = Journal<Int>()
    relay.add(Steps(count: 0) { taken.write($0) })
    #expect(relay.isAtRest)
    relay.add(Steps(count: 300) { taken.write($0) })
    relay.waitUntilIdle()
    #expect(taken.entries.sorted() == Array(0..<300))
  }

  @Test func whatIsNeverTakenGoesWithTheSegment() {
    // A relay keeps itself as long as anything waits; this shows that nothing is lost when it goes right after.
    let gone = DispatchSemaphore(value: 0)
    do {
      let relay = Relay()
      relay.release(DeinitProbe { gone.signal() })
    }
    #expect(gone.waitUntilSignalled())
  }

  @Test func callsMayBlockSideBySide() {
    let (first, second) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let done = DispatchSemaphore(value: 0)
    DeferredCalls.add {
      first.wait()
      second.signal()
      done.signal()
    }
    DeferredCalls.add {
      first.signal()
      second.wait()
      done.signal()
    }
    #expect(done.waitUntilSignalled() && done.waitUntilSignalled())
    DeferredCalls.waitUntilIdle()
  }
}
