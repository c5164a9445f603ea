import Foundation
import Testing

@testable import OwnedOperations

/// Lines of deliveries in a queue: one at a time, in order, whoever adds, cancels or waits meanwhile.
@Suite(.serialized) struct LineModelTests {
  /// A line of the scene's queue, and what came of it.
  private final class Line: @unchecked Sendable {  // the baton holder's
    let scene: QueueScene
    let line: SerialLine
    var order: [Int] = [] { didSet { ModelRun.note(book) } }
    private let book = ModelObject("order")

    init(_ scene: QueueScene) {
      self.scene = scene
      line = SerialLine(scene.queue, scene.lifetime)
    }

    func add(_ number: Int, _ body: @escaping @Sendable () -> Void = {}) {
      line.add { [self] in
        order.append(number)
        body()
        scene.bodies.runAndStay()
        return nil
      }
    }

    /// Two are added and waited for, while another thread does something.
    func addTwo(_ run: ModelRun, beside name: String, _ other: @escaping @Sendable () -> Void) {
      run.concurrently(
        (
          "poster",
          { [self] in
            add(0)
            add(1)
            scene.wait()
          }
        ), (name, other))
    }
  }

  @Test func deliveriesRunOneAtATimeAndInOrder() {
    ModelExplorer("lines: add, add, add, limit 2").exploreQueue(limit: 2, preemptions: 1) { run, scene in
      let line = Line(scene)
      run.concurrently(
        (
          "poster",
          {
            for number in 0..<3 { line.add(number) }
            scene.wait()
            run.expect(line.order == [0, 1, 2], "\(line.order)")
          }
        ))
    } atEnd: { run, scene in
      scene.expect(run, runs: 3, atOnce: 1)
    }
  }

  @Test func aWorkerThatTakesSeveralKeepsTheOrder() {
    ModelExplorer("lines: add, add, async, in one batch").exploreQueue(preemptions: 0) { run, scene in
      let line = Line(scene)
      // The worker takes more and more as long as they are quick.
      scene.queue.isSuspended = true
      for _ in 0..<8 { scene.add() }
      for number in 0..<2 { line.add(number) }
      for number in 2..<12 { scene.queue.async(lifetime: scene.lifetime) { line.order.append(number) } }
      scene.queue.isSuspended = false
      scene.wait()
      run.expect(line.order == Array(0..<12), "\(line.order)")
    } atEnd: { run, scene in
      scene.expect(run, runs: 10)
    }
  }

  @Test func twoPostBesideAJob() {
    ModelExplorer("lines: add, async | add, limit 2").exploreQueue(limit: 2, preemptions: 0, reduces: true) { run, scene in
      let line = Line(scene)
      run.concurrently(
        (
          "one",
          {
            line.add(0)
            scene.add()
            line.add(1)
          }
        ), ("two", { line.add(2) }))
      scene.wait()
      run.expect(line.order.filter { $0 < 2 } == [0, 1], "\(line.order)")
    } atEnd: { run, scene in
      scene.expect(run, runs: 4, atOnce: 1)
    }
  }

  @Test func allIsCancelled() {
    ModelExplorer("lines: add, add, wait | cancel, limit 2").exploreQueue(limit: 2, preemptions: 1, reduces: true, deeper: nil) {
      run, scene in
      let line = Line(scene)
      line.addTwo(run, beside: "cancel") { scene.queue.cancelAllOperations() }
      line.add(2)
      scene.wait()
      run.expect(line.order == line.order.sorted() && line.order.last == 2, "\(line.order)")
    } atEnd: { run, scene in
      let statistics = scene.queue.statistics
      run.expect(statistics.succeeded == scene.bodies.runs && statistics.succeeded + statistics.cancelled == 3, "\(statistics)")
      run.expect(scene.bodies.mostInside == 1, "\(scene.bodies.mostInside) at once")
    }
  }

  @Test func theLineIsClosed() {
    ModelExplorer("lines: add, add, wait | close, limit 2").exploreQueue(limit: 2, preemptions: 1, reduces: true, deeper: nil) {
      run, scene in
      let line = Line(scene)
      line.addTwo(run, beside: "close") {
        _ = line.line.close(inBackground: false)
        line.add(2)
      }
      scene.wait()
      run.expect(line.order == Array(0..<line.order.count) && line.order.count < 3, "\(line.order)")
    } atEnd: { run, scene in
      run.expect(scene.bodies.mostInside <= 1, "\(scene.bodies.mostInside) at once")
      run.expect(scene.queue.shows { $0.unfinished == 0 }, "some are left")
    }
  }

  @Test func aDeliveryWaitsForTheQueue() {
    ModelExplorer("lines: add one that waits, add | add, limit 2").exploreQueue(limit: 2, preemptions: 1, reduces: true) { run, scene in
      let line = Line(scene)
      line.add(0) { scene.wait() }
      run.concurrently(("one", { line.add(1) }), ("two", { line.add(2) }))
    } atEnd: { run, scene in
      scene.expect(run, runs: 3, atOnce: 1)
    }
  }

  @Test func whatIsHeldBehindALineKeepsItsPlace() {
    ModelExplorer("lines: add one, async, add | resume, limit 1").exploreQueue(limit: 1, preemptions: 1) { run, scene in
      let (line, other) = (Line(scene), Line(scene))
      scene.queue.setSuspended(true, ownedBy: scene.lifetime)
      run.concurrently(
        (
          "poster",
          {
            line.add(0)
            scene.queue.async(lifetime: scene.lifetime) { line.order.append(1) }
            other.add(2) { line.order.append(2) }
            line.add(3)
            scene.queue.async(lifetime: scene.lifetime) { line.order.append(4) }
            scene.wait()
          }
        ), ("resume", { scene.queue.setSuspended(false, ownedBy: scene.lifetime) }))
      run.expect(line.order == Array(0..<5), "\(line.order)")
    } atEnd: { run, scene in
      scene.expect(run, runs: 3, atOnce: 1)
    }
  }

  @Test func theQueueIsSuspended() {
    ModelExplorer("lines: add, add, wait | suspend, resume, limit 2").exploreQueue(limit: 2, preemptions: 1, reduces: true, deeper: nil) {
      run, scene in
      let line = Line(scene)
      line.addTwo(run, beside: "suspend") {
        scene.queue.setSuspended(true, ownedBy: scene.lifetime)
        scene.queue.setSuspended(false, ownedBy: scene.lifetime)
      }
      run.expect(line.order == [0, 1], "\(line.order)")
    } atEnd: { run, scene in
      scene.expect(run, runs: 2, atOnce: 1)
    }
  }
}
