import Foundation
import Testing

@testable import OwnedOperations

/// An owner may go while its lifetime lives on: it shares its token with others, or its deinit body runs and the token goes after it.
@Suite struct QueueGoneOwnerTests {
  private final class Sharing: OperationOwner, Sendable {
    let lifetimeToken: OwnerLifetime.Token
    init(_ token: OwnerLifetime.Token) { lifetimeToken = token }
  }

  private final class LateBloomer: OperationOwner, Sendable {
    let lifetimeToken = OwnerLifetime.Token()
    private let body: @Sendable (LateBloomer) -> Void
    init(_ body: @escaping @Sendable (LateBloomer) -> Void) { self.body = body }
    deinit { body(self) }
  }

  @Test func workOfAnOwnerThatSharedItsTokenIsCancelledForItsEnd() {
    let queue = OwnerScopedQueue()
    let token = OwnerLifetime.Token()
    let staying = Sharing(token)
    queue.isSuspended = true
    queue.async(owner: staying) { #expect($0 === staying) }
    let operation = {
      let going = Sharing(token)
      queue.async(owner: going) { _ in Issue.record("has run without its owner") }
      return queue.addOperation(owner: going) { _ in Issue.record("has run without its owner") }
    }()
    queue.isSuspended = false
    #expect(queue.becomesIdle())
    #expect(token.lifetime.isAlive)
    #expect(operation.outcome?.reason == .ownerEnded(token.lifetime.id))
    let statistics = queue.statistics
    #expect(statistics.succeeded == 1)
    #expect(statistics.started == 1)
    #expect(statistics.skippedForEndedOwners == 2)
  }

  @Test func aNodeOfAnOwnerThatSharedItsTokenIsCancelledForItsEnd() throws {
    let queue = OwnerScopedQueue()
    let token = OwnerLifetime.Token()
    let graph = OperationGraph(lifetime: .forTests)
    graph.dependencyPolicy = .requireSuccess
    let node = {
      let going = Sharing(token)
      return graph.node(owner: going) { _ in Issue.record("has run without its owner") }
    }()
    let next = graph.node { Issue.record("has run though the node before has not") }
    node.precedes(next)
    let run = try graph.run(on: queue)
    #expect(queue.becomesIdle())
    #expect(run.outcome(of: node)?.reason == .ownerEnded(token.lifetime.id))
    #expect(run.nodeCounts.succeeded == 0 && run.nodeCounts.cancelled == 2)
    #expect(queue.statistics.started == 0)
  }

  @Test func workThatAnOwnerAddsInItsDeinitIsCancelledForItsEnd() {
    let queue = OwnerScopedQueue()
    let added = Mutexed<OwnedOperation?>(nil)
    let lifetime = {
      let owner = LateBloomer { owner in
        #expect(owner.lifetime.isAlive)
        queue.async(owner: owner) { _ in Issue.record("has run without its owner") }
        added.value = queue.addOperation(owner: owner) { _ in Issue.record("has run without its owner") }
        queue.waitUntilAllOperationsAreFinished()
        #expect(owner.lifetime.isAlive)
      }
      return owner.lifetime
    }()
    #expect(added.value?.outcome?.reason == .ownerEnded(lifetime.id))
    #expect(queue.statistics.skippedForEndedOwners == 2)
    #expect(queue.statistics.started == 0)
  }

  /// The compiler puts an owner that escapes only in its deinit on the stack, which nothing may refer to afterwards.
  @Test func ownerIsNotReferredToFromItsDeinitOn() {
    let queue = OwnerScopedQueue()
    let token = OwnerLifetime.Token()
    final class Sharer: OperationOwner, Sendable {
      let lifetimeToken: OwnerLifetime.Token
      private let queue: OwnerScopedQueue
      init(_ token: OwnerLifetime.Token, _ queue: OwnerScopedQueue) { (lifetimeToken, self.queue) = (token, queue) }
      deinit { queue.async(owner: self) { _ in Issue.record("has run without its owner") } }
    }
    for _ in 0..<100 { _ = Sharer(token, queue) }
    #expect(queue.becomesIdle())
    let staying = Sharing(token)
    #expect(token.lifetime.bind(staying), "none of those before was bound")
    #expect(queue.statistics.skippedForEndedOwners == 100)
    let ran = Counter()
    queue.async(owner: staying) { if $0 === staying { ran.add() } }
    #expect(queue.becomesIdle())
    #expect(ran.value == 1)
  }

  @Test func aLifetimeThatSeveralObjectsShareCanGetAParentAndBeEndedByHand() throws {
    let queue = OwnerScopedQueue()
    let token = OwnerLifetime.Token()
    let sharing = [Sharing(token), Sharing(token)]
    for owner in sharing { queue.async(owner: owner) { _ in } }
    #expect(queue.becomesIdle())
    try token.lifetime.setParent(OwnerLifetime.process)
    #expect(token.lifetime.parent === OwnerLifetime.process)
    token.lifetime.end()
    #expect(!token.lifetime.isAlive)
    withExtendedLifetime(sharing) {}
  }

  @Test func ownerOfAnOperationIsHeldWhileItRunsAndLetGoOfWhenItHasRun() {
    let queue = OwnerScopedQueue()
    let gate = Gate()
    let gone = DispatchSemaphore(value: 0)
    let operation = {
      let owner = DeinitProbe { gone.signal() }
      let operation = queue.addOperation(owner: owner) { _ in gate.pass() }
      #expect(gate.hasBegun())
      return withExtendedLifetime(owner) { operation }
    }()
    #expect(gone.wait(timeout: .now()) == .timedOut)
    gate.open()
    #expect(gone.waitUntilSignalled())
    #expect(returns { operation.waitUntilFinished() })
    #expect(operation.outcome?.kind == "succeeded")
  }
}
