import Foundation
import Testing

@testable import OwnedOperations

/// A queue whose operations are not ready: dependencies, conditions and priorities that change while a worker asks.
@Suite(.serialized) struct QueueReadinessModelTests {
  @Test func aDependencyFinishesWhileItsDependentIsAdded() {
    ModelExplorer("queue: add | add what it depends on").exploreQueue(preemptions: 1, deeper: nil) { run, scene in
      let first = scene.operation()
      let second = OwnedBlockOperation(lifetime: scene.lifetime) { if scene.bodies.runs == 1 { scene.bodies.run() } }
      second.addDependency(first)
      run.concurrently(
        ("first", { scene.queue.addOperation(first) }),
        (
          "second",
          {
            scene.queue.addOperation(second)
            second.waitUntilFinished()
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2)
    }
  }

  @Test func aDependencyIsAddedWhileTheWorkerStarts() {
    ModelExplorer("queue: added | depend | finish").exploreQueue(preemptions: 1, deeper: nil) { run, scene in
      let (first, last) = (scene.operation(), scene.operation())
      scene.queue.addOperation(last)
      run.concurrently(("depend", { last.addDependency(first) }), ("finish", { first.start() }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 2)
    }
  }

  @Test func thePriorityIsChangedWhileTheWorkerStarts() {
    ModelExplorer("queue: add, wait | queuePriority").exploreQueue { run, scene in
      let operation = scene.operation()
      run.concurrently(
        (
          "adder",
          {
            scene.queue.addOperation(operation)
            operation.waitUntilFinished()
          }
        ), ("priority", { operation.queuePriority = .high }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 1)
    }
  }

  /// Has a condition of its own.
  final class Conditional: OwnedOperation, @unchecked Sendable {  // the baton holder's
    var isOpen: Bool {
      get {
        ModelRun.note(book)
        return hasOpened
      }
      set {
        ModelRun.note(book)
        hasOpened = newValue
      }
    }
    var runs = 0
    private var hasOpened = false
    private let book = ModelObject("condition")
    var whenAsked: (@Sendable () -> Void)?
    override var isReady: Bool {
      whenAsked.take()?()
      return super.isReady && isOpen
    }
    override func perform() { runs += 1 }

    func open(tells: Bool = true) {
      isOpen = true
      if tells { didChangeValue(forKey: "isReady") }
    }
  }

  @Test(arguments: [true, false]) func aConditionComesTrueWhileTheWorkerAsks(tells: Bool) {
    let name = "add, wait | \(tells ? "announce" : "don't announce") readiness"
    ModelExplorer("queue: \(name)", earlyTimeouts: 1, timePasses: true).exploreQueue(preemptions: 1, deeper: nil) { run, scene in
      let operation = Conditional(lifetime: scene.lifetime)
      run.concurrently(
        (
          "adder",
          {
            scene.queue.addOperation(operation)
            operation.waitUntilFinished()
          }
        ), ("condition", { operation.open(tells: tells) }))
      run.expect(operation.runs == 1, "it ran \(operation.runs) times")
    } atEnd: { run, scene in
      run.expect(scene.queue.operationCount == 0, "\(scene.queue.operationCount) operations are left")
    }
  }

  @Test func aDependencyIsAddedWhileTheWorkerAsks() {
    ModelExplorer("queue: depends when asked, not ready | finish", timePasses: true).exploreQueue(preemptions: 1) { run, scene in
      let first = scene.operation()
      let last = Conditional(lifetime: scene.lifetime)
      last.whenAsked = { last.addDependency(first) }
      scene.queue.addOperation(last)
      run.concurrently(("finish", { first.start() }))
      last.open()
      last.waitUntilFinished()
      run.expect(last.runs == 1, "it ran \(last.runs) times")
    } atEnd: { run, scene in
      scene.expect(run, runs: 1)
    }
  }

  /// An operation of an owner that ends. It may be refused, or cancelled in the queue; what depends on it runs all the same.
  private static func exploreRefusal(
    _ name: String, preemptions: Int = 2, _ location: SourceLocation = #_sourceLocation,
    _ end: @escaping @Sendable (OwnerLifetime) -> Void
  ) {
    ModelExplorer("queue: add, wait for a plain operation behind it | \(name)", timePasses: true).exploreQueue(
      preemptions: preemptions, reduces: true, location
    ) { run, scene in
      let owner = OwnerLifetime()
      let first = OwnedBlockOperation(lifetime: owner) { scene.bodies.run() }
      let last = ModelFlag()
      let plain = BlockOperation { last.count += 1 }
      plain.addDependency(first)
      scene.queue.addOperation(plain)
      run.concurrently(("adder", { try? scene.queue.enqueue([first]) }), ("end", { end(owner) }))
      LifetimeReaper.waitUntilIdle()
      scene.wait()
      run.expect(last.count == 1, "what is behind it ran \(last.count) times")
    } atEnd: { run, scene in
      run.expect(scene.bodies.runs <= 1, "it ran \(scene.bodies.runs) times")
    }
  }

  @Test func whatIsBehindAnOperationRunsWhenItsOwnerEnds() {
    Self.exploreRefusal("end") { $0.end() }
  }

  /// The reaper may come at any moment: the operation finishes before the refusal says that nobody will start it, or after.
  @Test func whatIsBehindAnOperationRunsWhoeverIsFirst() {
    Self.exploreRefusal("end, reap", preemptions: 1) { owner in
      LifetimeReaper.hold(owner)
      owner.end()
      owner.tellMembers()
      LifetimeReaper.resume(owner)
    }
  }

  private final class WeakOperation: @unchecked Sendable {  // written before it is shared
    weak var operation: OwnedOperation?
  }

  /// An operation that nobody has hold of finishes unheard. Who knows it weakly may still come, and make a plain one depend on it.
  @Test func whatIsBehindAnOperationThatIsKnownWeaklyRuns() {
    ModelExplorer("queue: add, let go | depend on it, known weakly").exploreQueue(preemptions: 1) { run, scene in
      let known = WeakOperation()
      let holder = Holder(scene.operation())
      known.operation = holder.object
      let plain = BlockOperation {}
      let place = ModelPoint()
      run.concurrently(
        ("adder", { if let operation = holder.object.take() { scene.queue.addOperation(operation) } }),
        (
          "dependent",
          {
            place.pass()
            guard let operation = known.operation else { return }
            operation.lock.withLock {}
            plain.addDependency(operation)
          }
        ))
      run.wait("what it depends on") { plain.isReady }
    } atEnd: { run, scene in
      scene.expect(run, runs: 1)
    }
  }

  /// Of a plain operation nobody hears but by asking it.
  @Test func aPlainOperationIsCancelledWhileItWaits() {
    ModelExplorer("queue: add, wait | cancel of a plain operation", earlyTimeouts: 1, timePasses: true).exploreQueue(preemptions: 1) {
      run, scene in
      let first = BlockOperation {}
      let last = BlockOperation { scene.bodies.run() }
      last.addDependency(first)
      run.concurrently(
        (
          "adder",
          {
            scene.queue.addOperation(last)
            scene.wait()
          }
        ), ("cancel", { last.cancel() }))
      run.expect(last.isFinished, "it has not finished")
      first.start()
    } atEnd: { run, scene in
      run.expect(scene.bodies.runs == 0, "it ran, though it was cancelled")
    }
  }

  @Test func aPlainDependencyFinishesWhileItsDependentIsAdded() {
    ModelExplorer("queue: add, wait | finish of a plain operation", timePasses: true).exploreQueue(preemptions: 1) { run, scene in
      let first = BlockOperation {}
      let last = BlockOperation { scene.bodies.run() }
      last.addDependency(first)
      run.concurrently(
        (
          "adder",
          {
            scene.queue.addOperation(last)
            scene.wait()
          }
        ), ("finish", { first.start() }))
      run.expect(last.isFinished, "it has not finished")
    } atEnd: { run, scene in
      scene.expect(run, runs: 1)
    }
  }
}
