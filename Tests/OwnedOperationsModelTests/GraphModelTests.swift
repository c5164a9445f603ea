import Foundation
import Testing

@testable import OwnedOperations

/// Runs of graphs: nodes that finish at once, that are cancelled while they begin, and those who wait.
@Suite(.serialized) struct GraphModelTests {
  private static func explore(
    _ name: String, limit: Int = 1, preemptions: Int = 1, reduces: Bool = false, _ location: SourceLocation = #_sourceLocation,
    _ makeNodes: @escaping @Sendable (OperationGraph, ModelRun, QueueScene) -> Void,
    beside other: @escaping @Sendable (GraphRun, QueueScene) -> Void = { _, _ in },
    atEnd look: @escaping @Sendable (GraphRun, ModelRun, QueueScene) -> Void
  ) {
    ModelExplorer("graphs: \(name)").expectNothing(preemptions: preemptions, reduces: reduces, location) { run in
      let scene = QueueScene(limit: limit)
      let graph = OperationGraph(lifetime: scene.lifetime)
      makeNodes(graph, run, scene)
      guard let graphRun = try? graph.run(on: scene.queue) else { return run.expect(false, "the graph does not run") }
      run.concurrently(("wait", { graphRun.wait() }), ("other", { other(graphRun, scene) }))
      run.expect(graphRun.isFinished, "it has not finished")
      scene.wait()
      let counts = graphRun.nodeCounts
      run.expect(counts.unfinished == 0, "\(counts.unfinished) nodes have not finished")
      run.expect(counts.succeeded == scene.bodies.runs, "\(scene.bodies.runs) nodes ran, \(counts.succeeded) succeeded")
      let statistics = scene.queue.statistics
      run.expect(
        statistics.succeeded == counts.succeeded && statistics.cancelled == counts.cancelled,
        "the queue has counted \(statistics.succeeded) and \(statistics.cancelled), the run \(counts.succeeded) and \(counts.cancelled)")
      look(graphRun, run, scene)
    }
  }

  @Test func twoPredecessorsFinishAtOnce() {
    Self.explore("two before one", limit: 2, reduces: true) { graph, run, scene in
      // Of two priorities, so that they go through the queue.
      let first = graph.node(priority: .high) { scene.bodies.runAndStay() }
      let second = graph.node { scene.bodies.runAndStay() }
      let last = graph.node {
        run.expect(scene.bodies.runs == 2 && scene.bodies.inside == 0, "it began before its predecessors had finished")
        scene.bodies.run()
      }
      first.precedes(last)
      second.precedes(last)
    } atEnd: { graphRun, run, scene in
      scene.expect(run, runs: 3, atOnce: 2)
    }
  }

  @Test func aRunIsCancelledWhileItsNodesBegin() {
    Self.explore("wait | cancel") { graph, run, scene in
      for _ in 0..<3 { graph.node { scene.bodies.run() } }
    } beside: { graphRun, scene in
      graphRun.cancel()
      scene.bodies.hasEnded = true
    } atEnd: { graphRun, run, scene in
      run.expect(scene.bodies.startsAfterEnd <= 1, "\(scene.bodies.startsAfterEnd) nodes began after the cancellation")
      let counts = graphRun.nodeCounts
      run.expect(counts.succeeded + counts.cancelled == 3, "\(counts.succeeded) nodes succeeded, \(counts.cancelled) were cancelled")
    }
  }

  /// Who has waited for the run finds an empty queue, whatever its worker has yet to count.
  @Test func theQueueOfARunThatIsOverGetsAnotherUnderlyingQueue() {
    Self.explore("wait | wait, underlyingQueue", reduces: true) { graph, run, scene in
      graph.node { scene.bodies.run() }
    } beside: { graphRun, scene in
      graphRun.wait()
      scene.queue.underlyingQueue = nil
    } atEnd: { graphRun, run, scene in
      run.expect(scene.bodies.runs == 1, "\(scene.bodies.runs) nodes ran")
    }
  }

  @Test func aRunAndTheEndOfItsOwner() {
    Self.explore("wait | end") { graph, run, scene in
      let first = graph.node { scene.bodies.runAndStay() }
      let second = graph.node { scene.bodies.run() }
      first.precedes(second)
      graph.node { scene.bodies.run() }
    } beside: { _, scene in
      scene.end()
    } atEnd: { graphRun, run, scene in
      // One worker: the start of one node may have been under way.
      run.expect(scene.bodies.startsAfterEnd <= 1, "\(scene.bodies.startsAfterEnd) nodes began after the end")
    }
  }

  private final class Runs: @unchecked Sendable {  // the baton holder's
    var run: GraphRun?
  }

  /// The queue is suspended. Nobody would come to a node that is listed when its run has been cancelled.
  @Test func aRunBeginsWhileItsOwnerEnds() {
    ModelExplorer("graphs: run, suspended | end, reap").expectNothing(preemptions: 2) { run in
      let (scene, other, runs) = (QueueScene(), OwnerLifetime(), Runs())
      let graph = OperationGraph(lifetime: scene.lifetime)
      graph.node(lifetime: other) { scene.bodies.run() }
      scene.queue.isSuspended = true
      LifetimeReaper.hold(scene.lifetime)
      run.concurrently(
        ("run", { runs.run = try? graph.run(on: scene.queue) }),
        (
          "end",
          {
            scene.end()
            scene.lifetime.tellMembers()
          }
        ))
      LifetimeReaper.resume(scene.lifetime)
      LifetimeReaper.waitUntilIdle()
      run.expect(runs.run?.isFinished ?? true, "the run of an owner that has ended has not finished")  // refused, if it came later
      run.expect(scene.bodies.runs == 0, "a node ran in a suspended queue")
    }
  }

  // MARK: Nodes that get their owner

  /// Nodes one after the other, and an owner whose deinit waits for the last, which doesn't get it. Whoever lets go first, the deinit runs
  /// where no node is in hand.
  private static func exploreOwner(_ name: String, nodes: Int, _ location: SourceLocation = #_sourceLocation) {
    ModelExplorer("graphs: \(name)", timePasses: true).expectNothing(preemptions: 1, reduces: true, location) { run in
      let scene = QueueScene()
      let holder = Holder(QueueModelTests.BlockingOwner())
      let (owner, gate, lifetime) = (WeakReference(holder.object!), holder.object!.gate, holder.object!.lifetime)
      let graph = OperationGraph(lifetime: scene.lifetime)
      var before = graph.node(owner: holder.object!) { _ in scene.bodies.run() }
      for _ in 1..<nodes {
        let next = graph.node(owner: holder.object!) { _ in scene.bodies.run() }
        before.precedes(next)
        before = next
      }
      before.precedes(
        graph.node(lifetime: lifetime) {
          scene.bodies.run()
          gate.signal()
        })
      guard let graphRun = try? graph.run(on: scene.queue) else { return run.expect(false, "the graph does not run") }
      run.concurrently(("wait", { graphRun.wait() }), ("release", { holder.object = nil }))
      scene.wait()
      run.wait("the owner goes") { owner.object == nil }
      let counts = graphRun.nodeCounts
      run.expect(counts.succeeded + counts.cancelled == nodes + 1, "\(counts.succeeded) nodes ran, \(counts.cancelled) were cancelled")
      run.expect(counts.succeeded == scene.bodies.runs, "\(scene.bodies.runs) nodes ran, \(counts.succeeded) succeeded")
    }
  }

  @Test func aWorkerLetsGoOfAnOwnerWithTheNextNodeInHand() {
    Self.exploreOwner("a node of an owner whose deinit waits for the next | last reference", nodes: 1)
  }

  @Test func aNodeTakesItsOwnerOverFromTheOneBeforeIt() {
    Self.exploreOwner("two nodes of an owner whose deinit waits for a third | last reference", nodes: 2)
  }
}
