import Foundation
import Testing

@testable import OwnedOperations

/// Owners that only their own running bodies hold: no further body begins, nothing is left behind, and the last body lets them go.
@Suite(.serialized) struct HoldModelTests {
  final class Owner: OperationOwner, Sendable {
    let lifetimeToken = OwnerLifetime.Token()
  }

  /// An owner that only one body holds.
  struct Scene: Sendable {
    let hold: OwnerHold
    let body: Retained<AnyObject>
    let owner: WeakReference<Owner>

    init() {
      let owner = Owner()
      hold = OwnerHold.of(owner)
      guard case .begins(let body) = hold.begin() else { preconditionFailure("nobody holds an owner that is there") }
      self.body = body
      self.owner = WeakReference(owner)
    }

    func expectEnd(_ run: ModelRun) {
      DeferredReleases.waitUntilIdle()
      run.expect(owner.object == nil, "the owner is still there")
    }
  }

  private static func explore(
    _ name: String, preemptions: Int = 2, _ location: SourceLocation = #_sourceLocation, _ scenario: @escaping @Sendable (ModelRun) -> Void
  ) {
    ModelExplorer("holds: \(name)").expectNothing(preemptions: preemptions, location, scenario)
  }

  @Test func noBodyBeginsWhenOnlyBodiesHoldTheOwner() {
    Self.explore("begin | begin | end of the last body", preemptions: 1) { run in
      let scene = Scene()
      let begun = ModelFlag()
      let begin: @Sendable () -> Void = {
        guard case .begins(let body) = scene.hold.begin() else { return }
        begun.count += 1
        scene.hold.end(body)
      }
      run.concurrently(("one", begin), ("two", begin), ("end", { scene.hold.end(scene.body) }))
      run.expect(begun.count == 0, "\(begun.count) bodies began")
      scene.expectEnd(run)
    }
  }

  @Test func anOwnerHasOneHold() {
    Self.explore("bind | bind | hold of the object") { run in
      let owner = Owner()
      let holds = SharedCell<[OwnerHold?]>([nil, nil, nil])
      @Sendable func bind(_ index: Int) {
        run.expect(owner.lifetime.bindOwn(owner), "the owner's own lifetime is another's")
        holds.value[index] = owner.lifetime.ownerHold
      }
      run.concurrently(("one", { bind(0) }), ("two", { bind(1) }), ("any", { holds.value[2] = OwnerHold.of(owner) }))
      run.expect(holds.value.allSatisfy { $0 != nil && $0 === holds.value[0] }, "several holds count the bodies of one owner")
    }
  }

  final class Waiting: HeldBackWork, @unchecked Sendable {  // the baton holder's
    var news = 0 { didSet { ModelRun.note(book) } }
    private let book = ModelObject("news")
    func ownerWasDecided() { news += 1 }
  }

  @Test func workThatIsHeldBackHearsOfTheEndOfTheLastBody() {
    Self.explore("keep | end of the last body") { run in
      let scene = Scene()
      let work = Waiting()
      run.concurrently(("keep", { scene.hold.keep(work) }), ("end", { scene.hold.end(scene.body) }))
      run.expect(work.news > 0, "nobody tells the work that the owner has gone")
      scene.expectEnd(run)
    }
  }

  @Test func aBodyWaitsWhileWorkIsHeldBack() {
    Self.explore("keep | count out, count in") { run in
      let scene = Scene()
      let work = Waiting()
      run.concurrently(
        ("keep", { scene.hold.keep(work) }),
        (
          "body",
          {
            scene.hold.countOut()
            scene.hold.countIn()
          }
        ))
      scene.hold.end(scene.body)
      run.expect(work.news > 0, "nobody tells the work that the owner has gone")
      scene.expectEnd(run)
    }
  }

  /// An event is over before a body is: its handler is not held back, but skipped. Not because a body of the owner is letting go.
  @Test func anEventReachesAnOwnerThatABodyLetsGoOf() {
    Self.explore("handler | end of a body") { run in
      let holder = Holder(Owner())
      let hold = OwnerHold.of(holder.object!)
      guard case .begins(let body) = hold.begin() else { return run.expect(false, "nobody holds an owner that is there") }
      let calls = ModelFlag()
      run.concurrently(("event", { hold.callHandler(if: { true }) { _ in calls.count += 1 } }), ("end", { hold.end(body) }))
      run.expect(calls.count == 1, "the handler was not called, though somebody holds the owner")
      holder.object = nil
    }
  }

  /// Whoever starts it: the queue, or somebody by hand, who is through with it when the queue has found that a body may begin.
  @Test func anOperationThatIsOverHoldsNoOwner() {
    ModelExplorer("holds: enqueue, wait | start").exploreQueue(preemptions: 1, reduces: true) { run, scene in
      let holder = Holder(Owner())
      let owner = WeakReference(holder.object!)
      let operation = OwnerBlockOperation(holder.object!, holder.object!.lifetime) { _ in scene.bodies.run() }
      run.concurrently(
        (
          "adder",
          {
            try? scene.queue.enqueue([operation])  // unless it has been started
            scene.wait()
          }
        ), ("start", { try? operation.beginStart() }))
      scene.wait()
      holder.object = nil
      run.wait("the owner goes") { owner.object == nil }
      withExtendedLifetime(operation) {}
    } atEnd: { run, scene in
      run.expect(scene.bodies.runs == 1, "it ran \(scene.bodies.runs) times")
    }
  }

  @Test func theLastReferenceGoesWhileJobsRun() {
    ModelExplorer("holds: resume, wait | last reference").exploreQueue(limit: 2, preemptions: 1) { run, scene in
      let holder = Holder(Owner())
      let reference = WeakReference(holder.object!)
      scene.queue.isSuspended = true
      for _ in 0..<2 { scene.queue.async(owner: holder.object!) { _ in scene.bodies.runAndStay() } }
      run.concurrently(
        (
          "resume",
          {
            scene.queue.isSuspended = false
            scene.wait()
          }
        ), ("release", { holder.object = nil }))
      DeferredReleases.waitUntilIdle()
      run.expect(reference.object == nil, "the owner is still there")
    } atEnd: { run, scene in
      run.expect(scene.queue.operationCount == 0, "\(scene.queue.operationCount) jobs are left")
    }
  }

  @Test func theLastReferenceGoesWhileABodyWaitsForItsOwner() {
    ModelExplorer("holds: a body that waits for its owner | last reference").exploreQueue(preemptions: 1) { run, scene in
      let holder = Holder(Owner())
      scene.queue.async(owner: holder.object!) { owner in
        scene.queue.async(owner: owner) { _ in scene.bodies.run() }
        scene.queue.waitUntilFinished(ownedBy: owner.lifetime)
        scene.bodies.run()
      }
      run.concurrently(("release", { holder.object = nil }), ("wait", { scene.wait() }))
    } atEnd: { run, scene in
      run.expect(scene.bodies.runs == 2 || scene.bodies.runs == 0, "\(scene.bodies.runs) bodies ran")
    }
  }

  /// The owner's deinit waits for a job that the worker has in hand when it lets go of the owner: one of the same owner's that doesn't get
  /// it. Whoever lets go first, the deinit runs elsewhere.
  @Test func aWorkerLetsGoOfAnOwnerWithItsNextJobInHand() {
    ModelExplorer("holds: async, async within, for which the owner's deinit waits | last reference", timePasses: true)
      .exploreQueue(preemptions: 1) { run, scene in
        let holder = Holder(QueueModelTests.BlockingOwner())
        let (owner, gate, lifetime) = (WeakReference(holder.object!), holder.object!.gate, holder.object!.lifetime)
        scene.queue.isSuspended = true
        scene.queue.async(owner: holder.object!) { _ in
          scene.queue.async(lifetime: lifetime) {
            scene.bodies.run()
            gate.signal()
          }
        }
        run.concurrently(
          (
            "resume",
            {
              scene.queue.isSuspended = false
              scene.wait()
              gate.signal()  // in the place of a job that never was
            }
          ), ("release", { holder.object = nil }))
        run.wait("the owner goes") { owner.object == nil }
      } atEnd: { run, scene in
        run.expect(scene.bodies.runs <= 1, "\(scene.bodies.runs) bodies ran")
      }
  }

  @Test func aJobInHandIsCancelledWithAllOthers() {
    ModelExplorer("holds: a job that is put back | cancel all").exploreQueue(limit: 2, preemptions: 1, deeper: nil) { run, scene in
      let (holder, handedOn) = (Holder(Owner()), ModelFlag())
      let kept = KeptOwner()
      let (hasBegun, isAdded, mayGoOn) = (Semaphore(), Semaphore(), Semaphore())
      scene.queue.async(owner: holder.object!) { owner in
        hasBegun.signal()
        mayGoOn.wait()
        kept.owner = owner  // which lets work that was held back go on
        handedOn.isSet = true
      }
      hasBegun.wait()
      run.concurrently(
        (
          "release",
          {
            scene.queue.async(owner: holder.object!) { _ in scene.bodies.run() }
            isAdded.signal()
            holder.object = nil
          }
        ),
        (
          "cancel",
          {
            isAdded.wait()
            scene.queue.cancelAllOperations()
            scene.queue.isSuspended = true
            mayGoOn.signal()
            scene.wait()  // what has begun is over, and nothing else is left
          }
        ))
      run.expect(handedOn.isSet, "the first body has not run to its end")
      kept.owner = nil
      DeferredReleases.waitUntilIdle()
    } atEnd: { _, _ in
    }
  }

  final class KeptOwner: @unchecked Sendable {  // the baton holder's
    var owner: Owner?
  }

  // MARK: Blocks of dispatch queues

  @Test func aBlockAndTheEndOfItsOwner() {
    Self.explore("DispatchQueue.async, async | end") { run in
      let scene = QueueScene()
      let queue = DispatchQueue(label: "blocks")
      run.concurrently(
        (
          "adder",
          {
            for _ in 0..<2 { queue.async(lifetime: scene.lifetime) { scene.bodies.runAndStay() } }
          }
        ), ("end", { scene.end() }))
      LifetimeReaper.waitUntilIdle()
      // The start of one may have been under way.
      run.expect(scene.bodies.startsAfterEnd <= 1, "\(scene.bodies.startsAfterEnd) blocks began after the end")
    }
  }

  @Test func aBlockIsHeldBackWhileItsLifetimeEnds() {
    Self.explore("DispatchQueue.async, held back | end of the lifetime") { run in
      let scene = Scene()
      let captured = Holder(ModelFlag())
      let reference = WeakReference(captured.object!)
      let queue = DispatchQueue(label: "blocks")
      let lifetime = OwnerLifetime()
      let block = PendingBlock(lifetime, scene.hold, at: .queue(DispatchPlace(queue: queue, qos: .unspecified, flags: []))) {
        [flag = captured.object] _ in flag?.count += 1
      }
      captured.object = nil
      LifetimeReaper.hold(lifetime)
      run.concurrently(
        ("queue", { queue.submit(block, qos: .unspecified, flags: []) }),
        (
          "end",
          {
            lifetime.end()
            block.lifetimeDidEnd()  // as the reaper does
          }
        ))
      let isOver = Semaphore()
      ThreadStart.on(queue) { isOver.signal() }
      isOver.wait()
      DeferredReleases.waitUntilIdle()
      run.expect(reference.object == nil, "what the block captured is still there")
      LifetimeReaper.resume(lifetime)
      scene.hold.end(scene.body)
      scene.expectEnd(run)
    }
  }
}
