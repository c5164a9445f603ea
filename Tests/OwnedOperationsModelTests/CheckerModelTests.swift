import Testing

@testable import OwnedOperations

/// The checker finds what it is meant to find, in programs that are known to be wrong.
@Suite(.serialized) struct CheckerModelTests {
  final class Box: @unchecked Sendable {
    var value = 0
  }

  @Test func aLostUpdateIsFound() {
    let report = ModelExplorer("lost update").exhaustively { run in
      let count = Counter()
      run.concurrently(("one", { count.addBadly() }), ("two", { count.addBadly() }))
      run.expect(count.word.load(ordering: .relaxed) == 2, "an addition is lost")
    }
    #expect(report.failure?.contains("an addition is lost") == true)
    #expect(!report.trace.isEmpty)
  }

  final class Counter: Sendable {
    let word = Atomic<Int>(0)
    func addBadly() { word.store(word.load(ordering: .relaxed) + 1, ordering: .relaxed) }
    func addWell() { word.add(1, ordering: .relaxed) }
  }

  @Test func allSchedulesOfTwoAdditionsAreSeen() {
    let report = ModelExplorer("two additions").exhaustively { run in
      let count = Counter()
      run.concurrently(("one", { count.addWell() }), ("two", { count.addWell() }), ("three", { count.addWell() }))
      run.expect(count.word.load(ordering: .relaxed) == 3, "an addition is lost")
    }
    #expect(report.failure == nil)
    #expect(report.isComplete)
  }

  final class Locks: Sendable {
    let first = Lock()
    let second = Lock()
  }

  @Test func aDeadlockIsFound() {
    let report = ModelExplorer("two locks").exhaustively { run in
      let locks = Locks()
      run.concurrently(
        ("one", { locks.first.withLock { locks.second.withLock {} } }),
        ("two", { locks.second.withLock { locks.first.withLock {} } }))
    }
    #expect(report.failure?.contains("nobody can go on") == true)
  }

  /// Looks, and then waits: the signal may have gone by in between.
  final class Lost: @unchecked Sendable {
    let isDone = Atomic<Bool>(false)
    let isWaiting = Atomic<Bool>(false)
    let semaphore = DispatchSemaphore(value: 0)

    func wait() {
      if isDone.load(ordering: .acquiring) { return }
      isWaiting.store(true, ordering: .releasing)
      semaphore.wait()
    }

    func finish() {
      isDone.store(true, ordering: .releasing)
      if isWaiting.load(ordering: .acquiring) { semaphore.signal() }
    }
  }

  @Test func aLostWakeUpIsFound() {
    let report = ModelExplorer("lost wake-up").exhaustively { run in
      let lost = Lost()
      run.concurrently(("waiter", { lost.wait() }), ("finisher", { lost.finish() }))
    }
    #expect(report.failure?.contains("nobody can go on") == true)
    let random = ModelExplorer("lost wake-up").randomly(.init(schedules: 1000)) { run in
      let lost = Lost()
      run.concurrently(("waiter", { lost.wait() }), ("finisher", { lost.finish() }))
    }
    #expect(random.failure?.contains("nobody can go on") == true)
  }

  @Test func alivelockIsFound() {
    let report = ModelExplorer("livelock").exhaustively { run in
      let flag = Atomic<Bool>(false)
      while !flag.load(ordering: .relaxed) { _ = flag.exchange(false, ordering: .relaxed) }
    }
    #expect(report.failure?.contains("no end") == true)
  }

  /// What is used by two, and kept by one of them.
  private final class Kept: Sendable {
    let word = Atomic<Int>(0)
  }

  @Test func aUseAfterTheReleaseIsFound() {
    let report = ModelExplorer("use after release").exhaustively { run in
      let owned = Retained(Kept())
      let borrowed = owned.borrowed
      run.concurrently(("owner", { owned.release() }), ("user", { borrowed.with { _ = $0.word.add(1, ordering: .relaxed) } }))
    }
    #expect(report.failure?.contains("release") == true)
    #expect(!report.trace.isEmpty)
  }

  @Test func aCrashIsFound() {
    let report = ModelExplorer("crash").exhaustively { run in
      let count = Counter()
      let crashAtOne: @Sendable () -> Void = {
        let found = count.word.load(ordering: .relaxed)
        count.word.store(found + 1, ordering: .relaxed)
        precondition(found != 1 || count.word.load(ordering: .relaxed) != 2)
      }
      run.concurrently(("one", crashAtOne), ("two", crashAtOne))
    }
    #expect(report.failure?.contains("signal") == true)
    #expect(!report.trace.isEmpty)
  }

  /// Work items that two may take: one who begins them, one who takes them away.
  private final class Items: Sendable {
    let ledger = ModelLedger()
    let isTaken = Atomic<Bool>(false)

    func takeBadly() {
      guard !isTaken.load(ordering: .acquiring) else { return }
      isTaken.store(true, ordering: .releasing)
      ledger.take(0)
    }

    func takeWell() {
      if !isTaken.exchange(true, ordering: .acquiringAndReleasing) { ledger.take(0) }
    }
  }

  @Test func aWorkItemThatIsBegunTwiceIsFound() {
    let explore: (String, @escaping @Sendable (Items) -> Void) -> ModelExplorer.Report = { name, take in
      ModelExplorer(name).exhaustively { run in
        let items = Items()
        items.ledger.put(0)
        run.concurrently(("worker", { take(items) }), ("canceller", { take(items) }))
      }
    }
    let report = explore("begun twice") { $0.takeBadly() }
    #expect(report.failure?.contains("twice") == true)
    #expect(!report.trace.isEmpty)
    #expect(explore("begun once") { $0.takeWell() }.failure == nil)
  }

  // MARK: Reduction

  /// What is seen in the end, with and without reduction: the same. And it is a reduction.
  private func expectSameOutcomes(_ name: String, preemptions: Int, _ scenario: @escaping @Sendable (ModelRun) -> Void) {
    var explorer = ModelExplorer(name)
    explorer.mostPreemptions = preemptions
    explorer.reduces = false
    let whole = explorer.exhaustively(scenario)
    explorer.reduces = true
    let reduced = explorer.exhaustively(scenario)
    #expect(whole.failure == nil && reduced.failure == nil)
    #expect(whole.isComplete && reduced.isComplete)
    let (missed, more) = (whole.outcomes.subtracting(reduced.outcomes).count, reduced.outcomes.subtracting(whole.outcomes).count)
    #expect(missed == 0 && more == 0)
    #expect(reduced.schedules < whole.schedules || preemptions == 0)
  }

  // Of the library's own scenarios the same can't be asked: what is left from earlier runs changes how some of their runs go.

  @Test(arguments: [0, 1, 2, 3]) func reductionLosesNoOutcomeOfASemaphore(preemptions: Int) {
    expectSameOutcomes("a semaphore", preemptions: preemptions) { run in
      let (semaphore, count) = (DispatchSemaphore(value: 0), Counter())
      let wait: @Sendable () -> Void = {
        semaphore.wait()
        count.addBadly()
      }
      run.concurrently(("one", wait), ("two", wait), ("three", { for _ in 0..<2 { semaphore.signal() } }))
    }
  }

  @Test(arguments: [0, 1, 2, 3]) func reductionLosesNoOutcomeOfLocksAndAtomics(preemptions: Int) {
    expectSameOutcomes("locks and atomics", preemptions: preemptions) { run in
      let (locks, count) = (Locks(), Counter())
      run.concurrently(
        (
          "one",
          {
            locks.first.withLock { count.addBadly() }
            locks.second.withLock {}
          }
        ), ("two", { locks.first.withLock { count.addWell() } }),
        ("three", { locks.second.withLock { _ = count.word.load(ordering: .relaxed) } }))
    }
  }
}
