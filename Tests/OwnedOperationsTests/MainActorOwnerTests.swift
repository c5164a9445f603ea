import Foundation
import Testing

@testable import OwnedOperations

/// A controller as they are mostly written: an `NSObject`, not Sendable, that lives on an actor because all that touches it does.
private class Controller: NSObject {
  var titles: [String] = []
  var deinitProbe: (() -> Void)?
  deinit { deinitProbe?() }
}

@MainActor private final class Model: OperationOwner {
  let lifetimeToken = OwnerLifetime.Token(name: "model")
  var titles: [String] = []
}

private struct Failure: Error {}

@MainActor @Suite(.serialized) struct MainActorOwnerTests {
  private let queue = OwnerScopedQueue()

  /// Everything that stood on the main queue before has had its turn.
  private func mainQueueRuns() async {
    await OwnerScopedQueue.main.finished()
    await withCheckedContinuation { continuation in DispatchQueue.main.async { continuation.resume() } }
  }

  /// `waitUntilFinished`, which is not for asynchronous code, on the main thread: nothing else runs there meanwhile.
  private func block(until operation: OwnedOperation) { operation.waitUntilFinished() }

  // MARK: Bodies on the main actor

  @Test func bodiesTouchOwnersThatAreNotSendable() async {
    let controller = Controller()
    OwnerScopedQueue.onMain(owner: controller) { $0.titles.append("queue") }
    DispatchQueue.onMain(owner: controller) { $0.titles.append("dispatch") }
    await withCheckedContinuation { continuation in
      OwnerScopedQueue.onMain(after: .milliseconds(5), owner: controller) {
        $0.titles.append("later")
        continuation.resume()
      }
      #expect(controller.titles.isEmpty)
    }
    await mainQueueRuns()
    #expect(controller.titles.sorted() == ["dispatch", "later", "queue"])
  }

  @Test func bodiesTouchTheStateOfMainActorOwnersFromAnyThread() async {
    let model = Model()
    await Task.detached {
      OwnerScopedQueue.onMain(owner: model) { model in
        model.titles.append("queue")
        MainActor.assumeIsolated {}
      }
      DispatchQueue.onMain(owner: model) { $0.titles.append("dispatch") }
      // The compiler knows `DispatchQueue.main`.
      DispatchQueue.main.async(owner: model) { $0.titles.append("main") }
      OwnerScopedQueue.onMain(lifetime: model.lifetime) { MainActor.preconditionIsolated() }
      try? await OwnerScopedQueue().run(owner: model) { @MainActor model in model.titles.append("run") }
    }.value
    await mainQueueRuns()
    #expect(model.titles.sorted() == ["dispatch", "main", "queue", "run"])
  }

  /// Guarantee 1, with the main thread busy when the owner goes.
  @Test func bodiesNeverRunAfterTheOwnersEnd() async {
    let live = LiveCount()
    weak let observed: Controller?
    do {
      let controller = Controller()
      observed = controller
      let captured = live.makeMember()
      OwnerScopedQueue.onMain(owner: controller) { _ in captured.mustNotRun() }
      DispatchQueue.onMain(owner: controller) { _ in captured.mustNotRun() }
      OwnerScopedQueue.onMain(after: .seconds(3600), owner: controller) { _ in captured.mustNotRun() }
    }
    #expect(observed == nil)
    #expect(live.becomesZero())  // though the main thread is busy: here
    await mainQueueRuns()
  }

  /// Guarantee 5: the reference that a body drops is let go of on the main thread.
  @Test func anOwnerThatItsOwnBodyDropsGoesOnTheMainThread() async {
    for isDispatch in [false, true] {
      var controller: Controller? = Controller()
      let (went, body) = (Mutexed<Bool?>(nil), Counter())
      controller?.deinitProbe = { went.value = MainQueue.isCurrent }
      let drop = {
        controller = nil
        body.add()
      }
      if isDispatch {
        DispatchQueue.onMain(owner: controller!) { _ in drop() }
      } else {
        OwnerScopedQueue.onMain(owner: controller!) { _ in drop() }
        // Of the same owner, and of another kind: the worker has it in hand when it lets go.
        OwnerScopedQueue.main.addOperation(lifetime: OwnerLifetime.of(controller!)) {}
        OwnerScopedQueue.onMain(owner: controller!) { _ in Issue.record("has begun") }
      }
      await mainQueueRuns()
      #expect(body.value == 1)
      #expect(went.value == true)
    }
  }

  // MARK: Work and handlers

  @Test func workRunsElsewhereAndItsHandlerComesBack() async {
    let controller = Controller()
    await withCheckedContinuation { continuation in
      queue.run(for: controller) {
        #expect(!MainQueue.isCurrent)
        return "loaded"
      } then: { controller, result in
        MainActor.preconditionIsolated()
        controller.titles.append((try? result.get()) ?? "none")
        continuation.resume()
      }
    }
    await withCheckedContinuation { continuation in
      queue.run(for: controller, { throw Failure() }) { (controller: Controller, result: Result<Void, any Error>) in
        if case .failure(let error) = result { controller.titles.append("\(type(of: error))") }
        continuation.resume()
      }
    }
    await withCheckedContinuation { continuation in
      queue.run(
        for: controller,
        {
          await Task.yield()
          return 2
        },
        then: { @MainActor controller, result in
          controller.titles.append("\((try? result.get()) ?? 0)")
          continuation.resume()
        })
    }
    #expect(controller.titles == ["loaded", "Failure", "2"])
  }

  @Test func handlersOnTheMainActorFromAnyThread() async {
    let model = Model()
    let queue = queue
    await withCheckedContinuation { continuation in
      DispatchQueue.global().async {
        queue.run(for: model) {
          1
        } onMain: { model, result in
          model.titles.append("\((try? result.get()) ?? 0)")
          queue.run(for: model) {
            try await Task.sleep(for: .milliseconds(1))
          } onMain: { model, _ in
            model.titles.append("slept")
            continuation.resume()
          }
        }
      }
    }
    #expect(model.titles == ["1", "slept"])
  }

  /// The work has no owner: it goes at once, and with it the handler.
  @Test func workDoesNotHoldItsOwner() async {
    let live = LiveCount()
    let gate = Gate()
    weak let observed: Controller?
    let operation: OwnedOperation
    do {
      let controller = Controller()
      observed = controller
      let captured = live.makeMember()
      operation = queue.run(for: controller) {
        gate.pass()
      } then: { _, _ in
        captured.mustNotRun()
      }
      #expect(gate.hasBegun())
    }
    #expect(observed == nil)
    #expect(live.becomesZero())  // while the work still runs
    gate.open()
    block(until: operation)
    await mainQueueRuns()
  }

  /// The owner's end is decided on the main thread, right before the handler begins.
  @Test func aHandlerThatWaitsForTheMainThreadNeverRunsAfterTheEnd() async {
    let live = LiveCount()
    let model = Model()
    do {
      let captured = live.makeMember()
      block(
        until: queue.run(for: model) {
        } then: { _, _ in
          captured.mustNotRun()
        })
      block(
        until: queue.run(for: model) {
        } onMain: { _, _ in
          captured.mustNotRun()
        })
    }
    #expect(OwnerScopedQueue.main.operationCount(ownedBy: model.lifetime) == 2)
    model.lifetime.end()
    #expect(live.becomesZero())
    await mainQueueRuns()
  }

  @Test func pendingWorkOfAnOwnerThatGoesIsReleased() {
    let live = LiveCount()
    queue.isSuspended = true
    for isAsync in [false, true] {
      let controller = Controller()
      let (work, handler) = (live.makeMember(), live.makeMember())
      if isAsync {
        queue.run(for: controller, { () async in work.mustNotRun() }, then: { _, _ in handler.mustNotRun() })
      } else {
        queue.run(for: controller, { work.mustNotRun() }, then: { _, _ in handler.mustNotRun() })
      }
    }
    #expect(live.becomesZero())
    queue.isSuspended = false
  }

  @Test func anOwnerThatHasEndedGetsNeitherWorkNorHandler() async {
    let live = LiveCount()
    let model = Model()
    model.lifetime.end()
    do {
      let captured = live.makeMember()
      let operation = queue.run(for: model, { captured.mustNotRun() }, then: { _, _ in captured.mustNotRun() })
      #expect(operation.isFinished)
      queue.run(for: model, { () async in captured.mustNotRun() }, onMain: { _, _ in captured.mustNotRun() })
    }
    #expect(live.becomesZero())
    await mainQueueRuns()
  }

  @Test(arguments: [false, true]) func workThatIsCancelledBeforeItBeganTellsTheHandler(isAsync: Bool) async {
    let controller = Controller()
    queue.isSuspended = true
    await withCheckedContinuation { continuation in
      let handler = { (controller: Controller, result: Result<Int, any Error>) in
        if case .failure(let error) = result, error is CancellationError { controller.titles.append("cancelled") }
        continuation.resume()
      }
      let operation =
        isAsync
        ? queue.run(for: controller, { () async -> Int in 1 }, then: handler) : queue.run(for: controller, { 1 }, then: handler)
      operation.cancel()
    }
    queue.isSuspended = false
    await queue.finished()
    await mainQueueRuns()
    #expect(controller.titles == ["cancelled"])
  }

  @Test(arguments: [false, true]) func workThatIsCancelledWhileItRunsTellsTheHandlerOnce(isAsync: Bool) async {
    let controller = Controller()
    let gate = Gate()
    await withCheckedContinuation { continuation in
      let handler = { (controller: Controller, result: Result<Int, any Error>) in
        if case .failure(let error) = result, error is CancellationError { controller.titles.append("cancelled") }
        continuation.resume()
      }
      let operation: OwnedOperation
      if isAsync {
        operation = queue.run(for: controller, { () async throws -> Int in try await Self.pass(gate) }, then: handler)
      } else {
        operation = queue.run(
          for: controller,
          {
            gate.pass()
            return 1
          }, then: handler)
      }
      #expect(gate.hasBegun())
      operation.cancel()
      gate.open()
    }
    await mainQueueRuns()
    #expect(controller.titles == ["cancelled"])
  }

  private nonisolated static func pass(_ gate: Gate) async throws -> Int {
    (gate.pass as () -> Void)()
    return 1
  }

  @Test func theEndCancelsAsynchronousWork() async {
    let ended = DispatchSemaphore(value: 0)
    let begun = DispatchSemaphore(value: 0)
    do {
      let controller = Controller()
      queue.run(for: controller) {
        begun.signal()
        defer { ended.signal() }
        try await Task.sleep(for: .seconds(3600))
      } then: { _, _ in
        Issue.record("has run")
      }
      #expect(begun.waitUntilSignalled())
    }
    #expect(ended.waitUntilSignalled())
    await mainQueueRuns()
  }

  @Test func aHandlerMayAskForMoreAndDropItsOwner() async {
    var controller: Controller? = Controller()
    let went = Mutexed<Bool?>(nil)
    controller?.deinitProbe = { went.value = MainQueue.isCurrent }
    let queue = queue
    let counter = Counter()
    await withCheckedContinuation { continuation in
      queue.run(for: controller!) {
        1
      } then: { owner, _ in
        queue.run(for: owner) {
          2
        } then: { _, _ in
          counter.add()
          controller = nil
          continuation.resume()
        }
      }
    }
    await mainQueueRuns()
    #expect(counter.value == 1)
    #expect(went.value == true)
  }

  // MARK: Ends

  @MainActor fileprivate final class IsolatedModel: OperationOwner {
    let lifetimeToken = OwnerLifetime.Token()
    var text = "text"
    let deinitProbe: @Sendable (String) -> Void
    init(_ deinitProbe: @escaping @Sendable (String) -> Void) { self.deinitProbe = deinitProbe }
    isolated deinit { deinitProbe(text) }
  }

  /// With an isolated deinit, the object's hooks run where the last reference went, and the token ends after the way to the main thread.
  @Test func theEndOfAnOwnerWithAnIsolatedDeinit() async {
    let journal = Journal<String>()
    let main = MainQueue.isCurrent
    #expect(main)
    let kept = Mutexed<IsolatedModel?>(IsolatedModel { journal.write("deinit \($0) \(MainQueue.isCurrent)") })
    let lifetime = kept.value!.lifetime
    lifetime.onEnd { _ in journal.write("end \(MainQueue.isCurrent)") }
    onDeinit(of: kept.value!) { _, _ in journal.write("hook \(MainQueue.isCurrent)") }
    OwnerScopedQueue.onMain(owner: kept.value!) { _ in Issue.record("has begun") }
    #expect(
      returns {
        kept.value = nil
        journal.write("dropped")
      })
    // The main thread was busy: the object's deinit waits for it. Its lifetime says alive, but no body gets it any more.
    #expect(journal.entries == ["hook false", "dropped"])
    #expect(lifetime.isAlive)
    OwnerScopedQueue.onMain(lifetime: lifetime) { journal.write("still alive") }
    await mainQueueRuns()
    while lifetime.isAlive { await Task.yield() }
    #expect(journal.entries.filter { $0 != "still alive" } == ["hook false", "dropped", "deinit text true", "end true"])
  }
}
