import Foundation
import Testing

@testable import OwnedOperations

/// What is the user's, released and called in the background: each step is taken once, and one that waits holds up nobody.
@Suite(.serialized) struct RelayModelTests {
  private static func explore(
    _ name: String, preemptions: Int = 2, _ location: SourceLocation = #_sourceLocation, _ scenario: @escaping @Sendable (ModelRun) -> Void
  ) {
    var explorer = ModelExplorer("relay: \(name)")
    explorer.exploresBackground = true
    explorer.expectNothing(preemptions: preemptions, location, scenario)
  }

  private static func step(_ taken: ModelFlag) -> RelaySteps { RelaySteps(count: 1) { _ in taken.count += 1 } }

  @Test func stepsAreTakenOnceWhoeverHandsThemOver() {
    Self.explore("add | add") { run in
      let relay = Relay()
      let (one, other) = (ModelFlag(), ModelFlag())
      run.concurrently(("one", { relay.add(Self.step(one)) }), ("other", { relay.add(Self.step(other)) }))
      relay.waitUntilIdle()
      run.expect(one.count == 1 && other.count == 1, "the steps were taken \(one.count) times and \(other.count) times")
    }
  }

  @Test func whoWaitsForIdleSeesAllThatWasHandedOverBefore() {
    Self.explore("add, wait | add") { run in
      let relay = Relay()
      let (one, other) = (ModelFlag(), ModelFlag())
      run.concurrently(
        (
          "one",
          {
            relay.add(Self.step(one))
            relay.waitUntilIdle()
            run.expect(one.count == 1, "idle before its step was taken")
          }
        ), ("other", { relay.add(Self.step(other)) }))
      relay.waitUntilIdle()
      run.expect(other.count == 1, "idle before the other's step was taken")
    }
  }

  /// A value whose deinit is counted.
  private final class Value: @unchecked Sendable {  // constant
    private let gone: ModelFlag
    init(_ gone: ModelFlag) { self.gone = gone }
    deinit { gone.count += 1 }
  }

  @Test func valuesAreReleasedOnce() {
    Self.explore("release, release | release") { run in
      let relay = Relay()
      let gone = ModelFlag()
      run.concurrently(
        (
          "one",
          {
            relay.release(Value(gone))
            relay.release(Value(gone))
          }
        ), ("other", { relay.release(Value(gone)) }))
      relay.waitUntilIdle()
      run.expect(gone.count == 3, "\(gone.count) of three have gone")
    }
  }

  /// Something that is pushed, and what is done with it.
  private final class Pushed: RelayLinked, @unchecked Sendable {  // constant, but for the link, which has a protocol of its own
    var nextInRelay: UnsafeMutableRawPointer?
    let take: () -> Void
    init(_ take: @escaping () -> Void) { self.take = take }
  }

  private static func relayOfPushed(together most: Int) -> Relay {
    Relay(together: most) { (indices, element: (Int) -> Pushed) in for index in indices { element(index).take() } }
  }

  /// A runner may be about to leave, or have left.
  @Test(arguments: [1, 2]) func whatIsPushedIsTakenOnce(together: Int) {
    Self.explore("push, push | push, taken \(together) at a time") { run in
      let relay = Self.relayOfPushed(together: together)
      let (taken, gone) = (ModelFlag(), ModelFlag())
      let push: @Sendable () -> Void = {
        let value = Value(gone)
        relay.push(Pushed { withExtendedLifetime(value) { taken.count += 1 } })
      }
      run.concurrently(
        (
          "one",
          {
            push()
            push()
          }
        ), ("other", push))
      relay.waitUntilIdle()
      run.expect(taken.count == 3, "\(taken.count) of three were taken")
      run.expect(gone.count == 3, "\(gone.count) of three have gone")
    }
  }

  /// What was handed over before comes before, in whatever way.
  @Test func whatIsPushedComesBeforeWhatIsAddedLater() {
    Self.explore("push, push, add") { run in
      let relay = Self.relayOfPushed(together: 1)
      let taken = ModelFlag()
      run.concurrently(
        (
          "one",
          {
            for place in 0..<2 {
              relay.push(
                Pushed {
                  run.expect(taken.count == place, "one was overtaken")
                  taken.count += 1
                })
            }
            relay.add(RelaySteps(count: 1) { _ in run.expect(taken.count == 2, "what was pushed was overtaken") })
          }
        ))
      relay.waitUntilIdle()
      run.expect(taken.count == 2, "\(taken.count) of two were taken")
    }
  }

  /// The first waits for the second, which only another thread can take.
  @Test func whatIsPushedAndWaitsHoldsUpNobody() {
    Self.explore("push one that waits | push what it waits for") { run in
      let relay = Self.relayOfPushed(together: 1)
      let (first, second) = (ModelFlag(), ModelFlag())
      let signal = Semaphore()
      run.concurrently(
        (
          "first",
          {
            relay.push(
              Pushed {
                signal.wait()
                first.count += 1
              })
          }
        ),
        (
          "second",
          {
            relay.push(
              Pushed {
                second.count += 1
                signal.signal()
              })
          }
        ))
      relay.waitUntilIdle()
      run.expect(first.count == 1 && second.count == 1, "they were taken \(first.count) times and \(second.count) times")
    }
  }

  /// A value that goes in the background.
  private final class Gathered: @unchecked Sendable {  // constants
    private let (run, gone): (ModelRun, ModelFlag)
    init(_ run: ModelRun, _ gone: ModelFlag) { (self.run, self.gone) = (run, gone) }
    deinit {
      run.expect(ModelRun.thread?.isPartOfScenario == false, "it was released by whoever added it")
      gone.count += 1
    }
  }

  /// What is released without haste waits until it is several, or the timer goes off, at any moment.
  @Test func whatIsReleasedWithoutHasteGoesWhateverComesFirst() {
    ModelExplorer("relay: add without haste, twice | add without haste", earlyTimeouts: 2, timePasses: true).expectNothing(preemptions: 2) {
      run in
      let gatherer = Gatherer<AnyObject>(most: 2) { DeferredReleases.add(contentsOf: $0) }
      let gone = ModelFlag()
      run.concurrently(
        (
          "one",
          {
            for _ in 0..<2 { gatherer.add(Gathered(run, gone)) }
          }
        ), ("other", { gatherer.add(Gathered(run, gone)) }))
      run.wait("release") { gone.count == 3 }
    }
  }

  /// Who hands over has all handed over that was added before, also what the timer has just taken.
  @Test func whoHandsOverWaitsForTheTimer() {
    ModelExplorer("relay: add without haste, hand over", earlyTimeouts: 1, timePasses: true).expectNothing(preemptions: 3) { run in
      let handed = ModelFlag()
      let place = ModelPoint()
      let gatherer = Gatherer<ModelFlag> { flags in
        place.pass()  // others may come before it is done
        handed.count += flags.count
      }
      run.concurrently(
        (
          "one",
          {
            gatherer.add(ModelFlag())
            gatherer.handOver()
            run.expect(handed.count == 1, "it was not handed over")
            gatherer.add(ModelFlag())
            if gatherer.isEmpty { run.expect(handed.count == 2, "nothing is left, and one was not handed over") }
          }
        ))
      run.wait("the timer") { handed.count == 2 }
    }
  }

  /// Two units are over, and each has the progress told unless that is on its way. Observers may hold up either.
  @Test func aProgressIsToldTheNewestCount() {
    ModelExplorer("progress: add, tell | add, tell").expectNothing(preemptions: 3) { run in
      let progress = QueueProgress(SlowProgress())
      @Sendable func addOne() {
        progress.add(1)
        if progress.claimTelling() { progress.tell() }
      }
      run.concurrently(("one", addOne), ("other", addOne))
      let told = progress.foundationProgress.completedUnitCount
      run.expect(told == 2, "it was told \(told) of two")
    }
  }

  /// Another thread may come before it is set.
  private final class SlowProgress: Progress, @unchecked Sendable {  // as its base, with constants
    private let looks = Atomic<Int>(0)

    init() { super.init(parent: nil, userInfo: nil) }

    override var completedUnitCount: Int64 {
      willSet { _ = looks.load(ordering: .relaxed) }
    }
  }

  /// The first step waits for the second, which only another thread can take.
  @Test func aStepThatWaitsHoldsUpNobody() {
    Self.explore("add one that waits | add what it waits for") { run in
      let relay = Relay()
      let (first, second) = (ModelFlag(), ModelFlag())
      let signal = Semaphore()
      run.concurrently(
        (
          "first",
          {
            relay.add(
              RelaySteps(count: 1) { _ in
                signal.wait()
                first.count += 1
              })
          }
        ),
        (
          "second",
          {
            relay.add(
              RelaySteps(count: 1) { _ in
                second.count += 1
                signal.signal()
              })
          }
        ))
      relay.waitUntilIdle()
      run.expect(first.count == 1 && second.count == 1, "the steps were taken \(first.count) times and \(second.count) times")
    }
  }

  /// The watch finds that a runner has stood still, though it is only between two steps. What comes later must not be gathered in the
  /// segment while the other runner is about to claim there.
  @Test func aRunnerThatIsReplacedTooEarlyLeavesAfterItsStep() {
    var explorer = ModelExplorer("relay: release, release: look, look | release")
    explorer.exploresBackground = true
    explorer.expectNothing(preemptions: 2, reduces: true) { run in
      let relay = Relay()
      let gone = ModelFlag()
      for _ in 0..<2 { relay.release(Value(gone)) }
      run.concurrently(
        (
          "watch",
          {
            for _ in 0..<2 { _ = relay.look() }
          }
        ), ("other", { relay.release(Value(gone)) }))
      relay.waitUntilIdle()
      run.expect(gone.count == 3, "\(gone.count) of three have gone")
    }
  }

  /// A thread that has run one body parks, and runs the next.
  @Test func aParkedThreadRunsWhatComesNext() {
    var explorer = ModelExplorer("spare threads: run, run | run")
    explorer.exploresBackground = true
    explorer.expectNothing(preemptions: 2, reduces: true) { run in
      let threads = SpareThreads(most: 1)
      let ran = Semaphore()
      threads.run { ran.signal() }
      run.concurrently(
        (
          "one",
          {
            for _ in 0..<2 { threads.run { ran.signal() } }
          }
        ), ("other", { threads.run { ran.signal() } }))
      for _ in 0..<4 { ran.wait() }
      threads.endParked()
    }
  }

  /// A deinit that waits, in the midst of a batch: the rest of it is another runner's, and what comes later may use the batch again only
  /// when both have left.
  @Test func aDeinitThatWaitsHoldsUpNobody() {
    Self.explore("release one that waits, release | release what it waits for, release") { run in
      let relay = Relay()
      let gone = ModelFlag()
      let signal = Semaphore()
      final class Waiting: @unchecked Sendable {  // constant
        let (gone, signal): (ModelFlag, OwnedOperations.Semaphore)
        init(_ gone: ModelFlag, _ signal: OwnedOperations.Semaphore) { (self.gone, self.signal) = (gone, signal) }
        deinit {
          signal.wait()
          gone.count += 1
        }
      }
      final class Signalling: @unchecked Sendable {  // constant
        let (gone, signal): (ModelFlag, OwnedOperations.Semaphore)
        init(_ gone: ModelFlag, _ signal: OwnedOperations.Semaphore) { (self.gone, self.signal) = (gone, signal) }
        deinit {
          gone.count += 1
          signal.signal()
        }
      }
      run.concurrently(
        (
          "one",
          {
            relay.release(Waiting(gone, signal))
            relay.release(Value(gone))
          }
        ),
        (
          "other",
          {
            relay.release(Signalling(gone, signal))
            relay.release(Value(gone))
          }
        ))
      relay.waitUntilIdle()
      run.expect(gone.count == 4, "\(gone.count) of four have gone")
    }
  }
}
