import Foundation
import Testing

@testable import OwnedOperations

/// An asynchronous operation that a scheduler starts: every two, and every three, of what may happen to it at once.
@Suite(.serialized) struct OperationEventModelTests {
  private final class Watched: OwnedOperation, @unchecked Sendable {  // the baton holder's
    var starts = 0
    var cancellations = 0
    var releases = 0
    var hasEnded = false { didSet { ModelRun.note(book) } }
    var startsAfterEnd = 0
    let book = ModelObject("watched")

    override var isAsynchronous: Bool { true }

    override func perform() {
      ModelRun.note(book)
      starts += 1
      if hasEnded { startsAfterEnd += 1 }
    }

    override func didCancel(_ reason: CancellationReason) {
      cancellations += 1
      finish()
    }

    override func releaseWork() { releases += 1 }
  }

  enum Event: String, CaseIterable, Sendable {
    case start, cancel, finish, end, dependency, timeout, wait
  }

  private final class Scene: Sendable {
    let run: ModelRun
    let events: [Event]
    let (lifetime, other) = (OwnerLifetime(), OwnerLifetime())
    let operation: Watched
    let dependency: OwnedBlockOperation
    let scheduler = ModelScheduler()
    /// Threads that have something to do other than to wait.
    private let left = ModelFlag()

    /// Without a start among the events the operation executes already, or will as soon as its dependency has finished.
    init(_ run: ModelRun, _ events: [Event]) {
      (self.run, self.events) = (run, events)
      operation = Watched(lifetime: lifetime)
      dependency = OwnedBlockOperation(lifetime: other) {}
      if events.contains(.dependency) { operation.addDependency(dependency) }
      if events.contains(.timeout) { operation.timeout = .seconds(1) }
      _ = operation.attach(to: scheduler)
      if !events.contains(.start) { _ = operation.startIfReady() }
      left.count = events.count { $0 != .wait && $0 != .timeout }
    }

    func perform(_ event: Event) {
      switch event {
      case .start: _ = operation.startIfReady()
      case .cancel: operation.cancel()
      case .finish: if operation.starts > 0 { operation.finish() }
      case .end:
        lifetime.end()
        // A start that is under way may still begin: its decision was made before.
        ModelRun.note(operation.book)
        if operation.load().phase == .pending { operation.hasEnded = true }
      case .dependency:
        dependency.start()
        _ = operation.startIfReady()
      case .wait: return operation.waitUntilFinished()
      case .timeout: return
      }
      left.count -= 1
      if left.count == 0 { complete() }
    }

    /// For those who wait: the scheduler has its way, and the work comes to its end.
    private func complete() {
      _ = operation.startIfReady()
      if operation.starts > 0 { operation.finish() }
    }

    func look() {
      operation.waitUntilFinished()
      LifetimeReaper.waitUntilIdle()
      DeferredCalls.waitUntilIdle()
      run.expect(operation.starts <= 1, "it ran \(operation.starts) times")
      run.expect(operation.startsAfterEnd == 0, "it began after the end")
      run.expect(operation.cancellations <= 1, "it was told \(operation.cancellations) times that it was cancelled")
      run.expect(operation.releases >= 1, "its work was not released")
      run.expect(scheduler.finishes == 1, "the scheduler heard \(scheduler.finishes) times that it has finished")
      run.expect(operation.lock.withLock { operation.extras?.timer == nil }, "its timer is still there")
      switch operation.outcome {
      case .succeeded?: run.expect(operation.starts == 1, "it succeeded without having run")
      case .cancelled(.timedOut)?: run.expect(events.contains(.timeout), "it timed out")
      case .cancelled?: run.expect(events.contains(.cancel) || events.contains(.end), "it was cancelled by nobody")
      default: run.expect(false, "its outcome is \(String(describing: operation.outcome))")
      }
    }
  }

  private static func explore(_ events: [Event], deeper: Int) {
    OperationReport.listen { _ in }
    defer { OperationReport.listen(nil) }
    var explorer = ModelExplorer("events: " + events.map(\.rawValue).joined(separator: " | "))
    if events.contains(.timeout) { explorer.earlyTimeouts = 1 }
    explorer.timePasses = events == [.timeout, .wait]  // or nobody would finish it
    explorer.expectNothing(preemptions: 2, deeper: deeper) { run in
      let scene = Scene(run, events)
      run.concurrently(events.filter { $0 != .timeout }.map { event in (event.rawValue, { scene.perform(event) }) })
      scene.look()
    }
  }

  private static let pairs = Event.allCases.indices.flatMap { first in
    Event.allCases[(first + 1)...].map { [Event.allCases[first], $0] }
  }
  private static let triples = pairs.flatMap { pair in
    Event.allCases[(Event.allCases.firstIndex(of: pair[1])! + 1)...].map { pair + [$0] }
  }

  @Test(arguments: pairs) func everyTwo(_ events: [Event]) { Self.explore(events, deeper: 4_000) }
  @Test(arguments: triples) func everyThree(_ events: [Event]) { Self.explore(events, deeper: 500) }
}
