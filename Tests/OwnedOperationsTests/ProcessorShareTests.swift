import Foundation
import Testing

@testable import OwnedOperations

/// More workers than processors, for bodies that leave these unused.
@Suite struct ProcessorShareTests {
  private static let whole = ProcessorShare.whole

  @Test func bodiesAreTakenToComputeUntilTheyAreMeasured() {
    let share = ProcessorShare()
    #expect(share.value == Self.whole)
    #expect(!share.leavesRoom(beside: Processors.count, of: Processors.count))
  }

  @Test func bodiesThatUseATenthLetSevenTimesAsManyRun() {
    var share = ProcessorShare()
    share.add(.init(processorTime: 100_000, time: 1_000_000))
    #expect(share.value == Self.whole / 10)
    #expect(share.leavesRoom(beside: 7 * Processors.count - 1, of: Processors.count))
    #expect(!share.leavesRoom(beside: 8 * Processors.count, of: Processors.count))
  }

  /// They wait a little, for a lock perhaps: a thread more would only push the others aside.
  @Test func bodiesThatComputeForMostOfTheirTimeGetNoMoreThreadsThanProcessors() {
    var share = ProcessorShare()
    share.add(.init(processorTime: 900_000, time: 1_000_000))
    #expect(!share.leavesRoom(beside: Processors.count, of: Processors.count))
  }

  /// However many run: then each uses so much less.
  @Test(arguments: [2, 3, 10, 50]) func bodiesThatUseAllThatThereIsLeaveNoRoom(times: Int) {
    var share = ProcessorShare()
    share.add(.init(processorTime: 1_000_000, time: UInt64(times) * 1_000_000))
    #expect(!share.leavesRoom(beside: times * Processors.count, of: Processors.count))
  }

  @Test func bodiesThatUseNothingLetNoMoreThan48TimesAsManyRun() {
    var share = ProcessorShare()
    share.add(.init(processorTime: 0, time: 1_000_000))
    #expect(share.leavesRoom(beside: 48 * Processors.count - 1, of: Processors.count))
    #expect(!share.leavesRoom(beside: 48 * Processors.count, of: Processors.count))
  }

  @Test func whatWasMeasuredLongAgoIsForgotten() {
    var share = ProcessorShare()
    share.add(.init(processorTime: 0, time: 3_600_000_000_000))
    for _ in 0..<100 { share.add(.init(processorTime: 1_000_000, time: 1_000_000)) }
    #expect(share.value > Self.whole * 9 / 10)
  }

  @Test func aLongBodyCountsMoreThanAShortOne() {
    var share = ProcessorShare()
    share.add(.init(processorTime: 9_000_000, time: 9_000_000))
    share.add(.init(processorTime: 0, time: 1_000_000))
    #expect(share.value == Self.whole * 9 / 10)
  }

  @Test func clocksThatDisagreeMakeNoMoreThanAWhole() {
    var share = ProcessorShare()
    share.add(.init(processorTime: 2_000_000, time: 1_000_000))
    share.add(.init(processorTime: 1, time: 0))
    #expect(share.value == Self.whole)
  }

  /// A busy machine is no reason to make it busier.
  @Test func aThreadThatNeverWaitedOrWasPushedAsideHasComputed() {
    let start = ThreadUsage(processorTime: 1_000, voluntarySwitches: 5, involuntarySwitches: 7)
    func use(_ waits: UInt64, _ pushes: UInt64) -> ProcessorShare.Use {
      ThreadUsage(processorTime: 1_100, voluntarySwitches: 5 + waits, involuntarySwitches: 7 + pushes).use(since: start, in: 5_000)
    }
    #expect(use(0, 0) == ProcessorShare.Use(processorTime: 5_000, time: 5_000))
    #expect(use(0, 1) == ProcessorShare.Use(processorTime: 5_000, time: 5_000))
    #expect(use(1, 1) == ProcessorShare.Use(processorTime: 5_000, time: 5_000))
    #expect(use(1, 0) == ProcessorShare.Use(processorTime: 100, time: 5_000))
  }

  /// What is measured of one kind of work says nothing of what comes after a pause.
  @Test func aQueueThatHasRunOutOfWorkForgets() {
    let queue = OwnerScopedQueue()
    queue.noteUse(.init(processorTime: 0, time: 1_000_000))
    queue.async(lifetime: .forTests) {}
    #expect(queue.becomesIdle())
    #expect(eventually { queue.snapshot.processorShare == ProcessorShare() })
  }

  #if os(Linux)
    @Test func aThreadThatSleepsIsSeenToWait() throws {
      // The system may count by ticks of some milliseconds.
      let start = try #require(Platform.threadUsage)
      usleep(50_000)
      let end = try #require(Platform.threadUsage)
      #expect(end.voluntarySwitches > start.voluntarySwitches)
      #expect(end.processorTime - start.processorTime < 25_000_000)
    }

    /// They are too short for the monitor, which looks every two milliseconds.
    @Test func bodiesThatSleepForAMillisecondUseTheWholeLimit() {
      let most = 4 * Processors.count
      let queue = OwnerScopedQueue(maxConcurrentOperationCount: most)
      let running = Counter()
      let reached = Mutexed(false)
      let end = DispatchTime.now() + 60
      @Sendable func add() {
        queue.async(lifetime: .forTests) {
          running.add()
          if running.value == most { reached.value = true }
          usleep(1_000)
          running.add(-1)
          if !reached.value, DispatchTime.now() < end { add() }
        }
      }
      for _ in 0..<2 * most { add() }
      #expect(queue.becomesIdle())
      #expect(reached.value)
    }
  #endif
}
