import Foundation
import Testing

@testable import OwnedOperations

/// Dependencies that are added, removed and finished at the same time.
@Suite(.serialized) struct DependencyModelTests {
  private static func explore(
    _ name: String, preemptions: Int = 2, _ location: SourceLocation = #_sourceLocation, _ scenario: @escaping @Sendable (ModelRun) -> Void
  ) {
    OperationReport.listen { _ in }
    defer { OperationReport.listen(nil) }
    ModelExplorer("dependencies: \(name)").expectNothing(preemptions: preemptions, location, scenario)
  }

  private static func make() -> (OwnerLifetime, OwnedBlockOperation, OwnedBlockOperation) {
    let lifetime = OwnerLifetime()
    return (lifetime, OwnedBlockOperation(lifetime: lifetime) {}, OwnedBlockOperation(lifetime: lifetime) {})
  }

  @Test func addedWhileItFinishes() {
    Self.explore("add | finish") { run in
      let (lifetime, first, second) = Self.make()
      run.concurrently(("add", { second.addDependency(first) }), ("finish", { first.start() }))
      run.expect(second.isReady, "it is not ready, though what it depends on has finished")
      withExtendedLifetime(lifetime) {}
    }
  }

  @Test func addedAndRemovedWhileItFinishes() {
    Self.explore("add, remove | finish") { run in
      let (lifetime, first, second) = Self.make()
      run.concurrently(
        (
          "add, remove",
          {
            second.addDependency(first)
            second.removeDependency(first)
          }
        ), ("finish", { first.start() }))
      run.expect(second.isReady, "it is not ready")
      run.expect(second.dependencies.isEmpty, "the dependency is still there")
      withExtendedLifetime(lifetime) {}
    }
  }

  @Test func twoFinishAtOnce() {
    Self.explore("finish | finish | scheduler") { run in
      let (lifetime, first, second) = Self.make()
      let last = OwnedBlockOperation(lifetime: lifetime) {}
      last.addDependency(first)
      last.addDependency(second)
      let scheduler = ModelScheduler()
      guard case .blocked = last.attach(to: scheduler) else { return run.expect(false, "it is ready too early") }
      run.concurrently(("first", { first.start() }), ("second", { second.start() }))
      run.expect(scheduler.announcements == 1, "the scheduler heard \(scheduler.announcements) times that it is ready")
      run.expect(last.startIfReady(), "it can't be started")
      run.expect(scheduler.finishes == 1, "the scheduler heard \(scheduler.finishes) times that it has finished")
      withExtendedLifetime(lifetime) {}
    }
  }

  @Test func attachedWhileItBecomesReady() {
    Self.explore("attach | finish") { run in
      let (lifetime, first, last) = Self.make()
      last.addDependency(first)
      let scheduler = ModelScheduler()
      let isReady = ModelFlag()
      run.concurrently(
        ("attach", { if case .ready = last.attach(to: scheduler) { isReady.isSet = true } }), ("finish", { first.start() }))
      run.expect(
        (isReady.isSet ? 1 : 0) + scheduler.announcements == 1, "ready when attached: \(isReady.isSet), told: \(scheduler.announcements)")
      run.expect(last.startIfReady(), "it can't be started")
      withExtendedLifetime(lifetime) {}
    }
  }

  @Test func addedAfterItWasAnnounced() {
    Self.explore("add | startIfReady") { run in
      let (lifetime, first, last) = Self.make()
      let scheduler = ModelScheduler()
      guard case .ready = last.attach(to: scheduler) else { return run.expect(false, "it is not ready") }
      let isStarted = ModelFlag()
      run.concurrently(("add", { last.addDependency(first) }), ("start", { isStarted.isSet = last.startIfReady() }))
      if !isStarted.isSet {
        first.start()
        run.expect(scheduler.announcements == 1, "the scheduler heard \(scheduler.announcements) times that it is ready")
        run.expect(last.startIfReady(), "it can't be started")
      }
      run.expect(last.isFinished, "it has not finished")
      withExtendedLifetime(lifetime) {}
    }
  }

  @Test func addedWhileItFinishesAndTheSchedulerStarts() {
    Self.explore("add | finish | startIfReady") { run in
      let (lifetime, first, last) = Self.make()
      let scheduler = ModelScheduler()
      guard case .ready = last.attach(to: scheduler) else { return run.expect(false, "it is not ready") }
      let isStarted = ModelFlag()
      run.concurrently(
        ("add", { last.addDependency(first) }), ("finish", { first.start() }), ("start", { isStarted.isSet = last.startIfReady() }))
      if !isStarted.isSet {
        run.expect(scheduler.announcements == 1, "the scheduler heard \(scheduler.announcements) times that it is ready")
        run.expect(last.startIfReady(), "it can't be started")
      }
      run.expect(last.isFinished, "it has not finished")
      withExtendedLifetime(lifetime) {}
    }
  }

  @Test func cancelledWhileWhatItDependsOnFinishes() {
    Self.explore("cancel | finish") { run in
      let (lifetime, first, last) = Self.make()
      last.addDependency(first)
      let scheduler = ModelScheduler()
      _ = last.attach(to: scheduler)
      run.concurrently(("cancel", { last.cancel() }), ("finish", { first.start() }))
      run.expect(last.isFinished, "it has not finished")
      run.expect(scheduler.finishes == 1, "the scheduler heard \(scheduler.finishes) times that it has finished")
      withExtendedLifetime(lifetime) {}
    }
  }

  @Test func requiresSuccessWhileItFails() {
    Self.explore("policy | fail") { run in
      let (lifetime, _, last) = Self.make()
      struct Failure: Error {}
      let first = OwnedBlockOperation(lifetime: lifetime) { throw Failure() }
      last.addDependency(first)
      run.concurrently(("policy", { last.dependencyPolicy = .requireSuccess }), ("fail", { first.start() }))
      run.expect(last.isCancelled, "it was not cancelled, though what it requires has failed")
      withExtendedLifetime(lifetime) {}
    }
  }

  @Test func removedWhileItFails() {
    Self.explore("remove | cancel") { run in
      let (lifetime, first, last) = Self.make()
      last.dependencyPolicy = .requireSuccess
      last.addDependency(first)
      run.concurrently(("remove", { last.removeDependency(first) }), ("cancel", { first.cancel() }))
      DeferredCalls.waitUntilIdle()
      run.expect(last.lock.withLock { last.extras?.failedDependency == nil }, "it is kept for its name")
      withExtendedLifetime(lifetime) {}
    }
  }
}
