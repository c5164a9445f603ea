import Foundation
import Testing

@testable import OwnedOperations

/// Work without an owner, whose result goes to a handler that has one: called once, after the work, not after the owner's end.
@Suite(.serialized) struct ResultHandlerModelTests {
  /// What is done in the queue, and what its handler got, which runs as a job of the owner's in another queue, or at once.
  private final class Work: @unchecked Sendable {  // the baton holder's
    let run: ModelRun
    let scene: QueueScene
    let place = QueueScene()
    private(set) var operation: OwnedOperation!
    private let captured = Holder(ModelFlag())
    let isCaptured: WeakReference<ModelFlag>
    private(set) var results = 0
    private(set) var cancellations = 0
    private(set) var works = 0
    private var isInside = false
    private let book = ModelObject("work")

    /// - Parameter isHandledAtOnce: whether the handler is no job of another queue.
    init(_ run: ModelRun, _ scene: QueueScene, isHandledAtOnce: Bool) {
      (self.run, self.scene) = (run, scene)
      isCaptured = WeakReference(captured.object!)
      let (place, lifetime) = (place, scene.lifetime)
      let handler = ResultHandler<Int>(lifetime) { [unowned self, flag = captured.object] result in
        run.expect(!isInside, "the handler is called while the work is under way")
        if isHandledAtOnce {
          flag?.count += 1
          return noteResult(result)
        }
        place.queue.async(lifetime: lifetime) {
          flag?.count += 1
          self.noteResult(result)
        }
      }
      captured.object = nil
      operation = HandledOperation(lifetime, { [unowned self] in work() }, handler)
    }

    private func work() -> Int {
      ModelRun.note(book)
      works += 1
      isInside = true
      scene.bodies.pass()
      ModelRun.note(book)
      isInside = false
      return 7
    }

    private func noteResult(_ result: Result<Int, any Error>) {
      ModelRun.note(book)
      scene.bodies.run()
      results += 1
      switch result {
      case .success(let value): run.expect(value == 7 && works == 1, "\(value) after \(works) works")
      case .failure(let error):
        cancellations += 1
        run.expect(error is CancellationError, "\(error)")
      }
    }

    func waitForAll() {
      scene.wait()
      LifetimeReaper.waitUntilIdle()
      place.wait()
      DeferredReleases.waitUntilIdle()
    }
  }

  private static func explore(
    _ name: String, preemptions: Int = 2, isHandledAtOnce: Bool = false, _ location: SourceLocation = #_sourceLocation,
    _ threads: @escaping @Sendable (ModelRun, Work) -> Void,
    atEnd look: @escaping @Sendable (ModelRun, Work) -> Void
  ) {
    ModelExplorer("handlers: \(name)").expectNothing(preemptions: preemptions, reduces: true, location) { run in
      let work = Work(run, QueueScene(), isHandledAtOnce: isHandledAtOnce)
      threads(run, work)
      work.waitForAll()
      run.expect(work.operation.isFinished, "it has not finished")
      run.expect(work.works <= 1, "the work was done \(work.works) times")
      run.wait("release of the handler") { work.isCaptured.object == nil }
      look(run, work)
      withExtendedLifetime(work) {}
    }
  }

  @Test func theOwnerEndsWhileTheWorkIsDone() {
    Self.explore("run | end", preemptions: 1) { run, work in
      run.concurrently(
        (
          "adder",
          {
            try? work.scene.queue.enqueue([work.operation])
            work.scene.wait()
          }
        ), ("end", { work.scene.end() }))
    } atEnd: { run, work in
      run.expect(work.results <= 1 && work.cancellations == 0, "\(work.results) results, \(work.cancellations) cancellations")
      // Its start may have been under way.
      run.expect(work.scene.bodies.startsAfterEnd <= 1, "\(work.scene.bodies.startsAfterEnd) handlers began after the end")
    }
  }

  @Test func theWorkIsCancelledWhileItStarts() {
    Self.explore("start | cancel", preemptions: 3) { run, work in
      run.concurrently(
        ("start", { work.operation.start() }),
        (
          "cancel",
          {
            work.scene.bodies.pass()  // so that the work is seen to take time
            work.operation.cancel()
          }
        ))
    } atEnd: { run, work in
      run.expect(work.results == 1, "the handler got \(work.results) results")
      run.expect(work.works == 1 || work.cancellations == 1, "neither work nor cancellation")
    }
  }

  @Test func theWorkIsCancelledInTheQueue() {
    Self.explore("run | cancel", preemptions: 1) { run, work in
      run.concurrently(("adder", { try? work.scene.queue.enqueue([work.operation]) }), ("cancel", { work.operation.cancel() }))
    } atEnd: { run, work in
      run.expect(work.results == 1, "the handler got \(work.results) results")
    }
  }

  @Test func theWorkIsCancelledWhileItsOwnerEnds() {
    Self.explore("run | cancel | end", preemptions: 1, isHandledAtOnce: true) { run, work in
      run.concurrently(
        ("adder", { try? work.scene.queue.enqueue([work.operation]) }), ("cancel", { work.operation.cancel() }),
        ("end", { work.scene.end() }))
    } atEnd: { run, work in
      run.expect(work.results <= 1, "the handler got \(work.results) results")
    }
  }

  @Test func theWorkIsCancelledWhileItStartsAndItsOwnerEnds() {
    Self.explore("start | cancel | end", preemptions: 2, isHandledAtOnce: true) { run, work in
      run.concurrently(
        ("start", { work.operation.start() }), ("cancel", { work.operation.cancel() }), ("end", { work.scene.end() }))
    } atEnd: { run, work in
      run.expect(work.results <= 1, "the handler got \(work.results) results")
    }
  }

  /// Nobody starts the work, and somebody keeps the operation.
  @Test func theHandlerGoesWithItsOwner() {
    Self.explore("run, suspended | end") { run, work in
      work.scene.queue.isSuspended = true
      run.concurrently(("adder", { try? work.scene.queue.enqueue([work.operation]) }), ("end", { work.scene.end() }))
    } atEnd: { run, work in
      run.expect(work.results == 0 && work.works == 0, "\(work.results) results of \(work.works) works")
    }
  }
}
