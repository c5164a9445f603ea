import Foundation
import Synchronization
import Testing

@testable import OwnedOperations

private typealias Semaphore = OwnedOperations.Semaphore

/// The semaphore that timed waits of the library go through.
@Suite struct SemaphoreTests {
  @Test func aSignalLetsOneWaitThrough() {
    let semaphore = Semaphore()
    #expect(!semaphore.wait(until: .now()))
    semaphore.signal()
    semaphore.signal()
    semaphore.wait()
    #expect(semaphore.wait(until: .now()))
    #expect(!semaphore.wait(until: .now() + .milliseconds(1)))
  }

  @Test func theFirstValueIsToBeHad() {
    let semaphore = Semaphore(value: 2)
    #expect(semaphore.wait(until: .now()) && semaphore.wait(until: .now()) && !semaphore.wait(until: .now()))
  }

  @Test func waitsInTimeEndNotTooEarly() {
    let start = Uptime.now
    #expect(!Semaphore().wait(until: DispatchTime(uptimeNanoseconds: start) + .milliseconds(20)))
    #expect(Uptime.now - start >= 20_000_000)
  }

  @Test func waitsWithoutAnEndAreWoken() {
    for isTimed in [false, true] {
      let (semaphore, here, through) = (Semaphore(), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
      Thread.detachNewThread {
        here.signal()
        if isTimed { _ = semaphore.wait(until: .distantFuture) } else { semaphore.wait() }
        through.signal()
      }
      #expect(here.waitUntilSignalled())
      semaphore.signal()
      #expect(through.waitUntilSignalled())
    }
  }

  /// Some waits run out just when they are signalled. No signal gets lost, none counts twice.
  @Test func signalsAndWaitsAddUp() {
    let count = Sanitizer.isActive ? 2_000 : 5_000
    let semaphore = Semaphore()
    let (taken, written) = (Counter(), Counter())
    let ended = DispatchSemaphore(value: 0)
    for number in 0..<4 {
      Thread.detachNewThread {
        for round in 0..<count {
          if number < 2 {
            written.add()
            semaphore.signal()
          } else if semaphore.wait(until: .now() + .nanoseconds(round % 64 * 100)) {
            taken.add()
          }
        }
        ended.signal()
      }
    }
    for _ in 0..<4 { #expect(ended.waitUntilSignalled()) }
    while semaphore.wait(until: .now()) { taken.add() }
    #expect(taken.value == 2 * count && written.value == 2 * count)
  }
}
