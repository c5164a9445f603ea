import Foundation
import Testing

@testable import OwnedOperations

/// When a worker lets go of the owner that it has given to a node of a graph.
@Suite struct NodeOwnerTests {
  private final class Host: OperationOwner, Sendable {
    let lifetimeToken: OwnerLifetime.Token
    private let leave: @Sendable () -> Void

    init(_ token: OwnerLifetime.Token = OwnerLifetime.Token(), _ leave: @escaping @Sendable () -> Void = {}) {
      (lifetimeToken, self.leave) = (token, leave)
    }

    deinit { leave() }
  }

  private let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
  private let graph = OperationGraph(lifetime: .forTests)

  /// The first node drops its owner, whose deinit waits for the second, with which the worker goes on.
  @Test func theDeinitDoesNotRunWithTheNextNodeInHand() throws {
    let ran = DispatchSemaphore(value: 0)
    let owner = Mutexed<Host?>(Host { #expect(ran.waitUntilSignalled()) })
    let gone = goodbye(of: owner.value!)
    let first = graph.node(owner: owner.value!) { _ in owner.value = nil }
    let next = graph.node(lifetime: owner.value!.lifetime) { ran.signal() }
    first.precedes(next)
    let run = try graph.run(on: queue)
    #expect(gone.waitUntilSignalled())
    #expect(returns { run.wait() })
    #expect(run.outcome(of: next)?.kind == "succeeded")
  }

  /// The worker goes on with nothing, and lets go of the owner itself: others run what has become ready.
  @Test func theDeinitIsNoBody() throws {
    let gate = Gate()
    let owner = Mutexed<Host?>(Host { gate.pass() })
    let first = graph.node(owner: owner.value!) { _ in owner.value = nil }
    let next = graph.node(priority: .low) {}
    first.precedes(next)
    let run = try graph.run(on: queue)
    #expect(gate.hasBegun())
    queue.lookAtWorkers(times: 3)
    #expect(returns { run.wait() })
    #expect(run.outcome(of: next)?.kind == "succeeded")
    gate.open()
    #expect(queue.becomesIdle())
  }

  /// What the last node has captured goes with the run, on the worker's thread, and waits for the node's owner to go.
  @Test func whatGoesWithTheRunMayWaitForTheOwner() throws {
    let owner = Mutexed<Host?>(Host())
    let gone = goodbye(of: owner.value!)
    let run: GraphRun
    do {
      let graph = OperationGraph(lifetime: .forTests)
      let probe = DeinitProbe { #expect(gone.waitUntilSignalled()) }
      graph.node(owner: owner.value!) { _ in
        withExtendedLifetime(probe) {}
        owner.value = nil
      }
      run = try graph.run(on: queue)
    }
    #expect(returns { run.wait() })
  }

  /// A node takes the owner over from the one before it, if somebody else holds it, and else doesn't begin. One with another owner gets
  /// that. All are of one lifetime, so that the worker goes on from each to the next.
  @Test(arguments: [false, true]) func aNodeGetsItsOwnOwner(isDropped: Bool) throws {
    let token = OwnerLifetime.Token()
    let (one, other) = (Mutexed<Host?>(Host(token)), Mutexed<Host?>(Host(token)))
    let gone = goodbye(of: one.value!)
    let order = Journal<ObjectIdentifier>()
    let ids = [one, one, other, one].map { ObjectIdentifier($0.value!) }
    let nodes = [one, one, other, one].enumerated().map { index, owner in
      graph.node(owner: owner.value!) { host in
        order.write(ObjectIdentifier(host))
        if isDropped, index == 0 { owner.value = nil }
      }
    }
    for index in 1..<nodes.count { nodes[index - 1].precedes(nodes[index]) }
    let run = try graph.run(on: queue)
    #expect(returns { run.wait() })
    #expect(order.entries == (isDropped ? [ids[0], ids[2]] : ids))
    #expect(run.nodeCounts.cancelled == (isDropped ? 2 : 0))
    one.value = nil
    #expect(gone.waitUntilSignalled())
  }
}
