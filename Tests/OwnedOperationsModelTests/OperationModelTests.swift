import Foundation
import Testing

@testable import OwnedOperations

/// The state word of an operation: every two, and every three, of what may happen to it at once.
@Suite(.serialized) struct OperationModelTests {
  /// Counts what must happen at most once.
  final class Watched: OwnedOperation, @unchecked Sendable {  // the baton holder's
    var starts = 0
    var cancellations = 0
    var finishes = 0
    var hasEnded = false { didSet { ModelRun.note(book) } }
    var startsAfterEnd = 0
    fileprivate let book = ModelObject("watched")

    override func perform() {
      ModelRun.note(book)
      starts += 1
      if hasEnded { startsAfterEnd += 1 }
    }

    override func didCancel(_ reason: CancellationReason) { cancellations += 1 }
  }

  enum Event: String, CaseIterable, Sendable {
    case start, cancel, end, wait, read, observe

    func perform(on operation: Watched, of lifetime: OwnerLifetime) {
      switch self {
      case .start: operation.start()
      case .cancel: operation.cancel()
      case .end:
        lifetime.end()
        // A start that is under way may still begin: its decision was made before.
        ModelRun.note(operation.book)
        if operation.load().phase == .pending { operation.hasEnded = true }  // a look that changes nothing
      case .wait: operation.waitUntilFinished()
      case .read: _ = (operation.state, operation.isCancelled, operation.outcome)
      case .observe:
        let observation = operation.observe(\.isFinished) { operation, _ in (operation as? Watched)?.finishes += 1 }
        operation.cancel()
        withExtendedLifetime(observation) {}
      }
    }
  }

  private static func explore(_ events: [Event], preemptions: Int) {
    OperationReport.listen { _ in }
    defer { OperationReport.listen(nil) }
    let name = "operation: " + events.map(\.rawValue).joined(separator: " | ")
    ModelExplorer(name).expectNothing(preemptions: preemptions, deeper: nil) { run in
      let lifetime = OwnerLifetime()
      let operation = Watched(lifetime: lifetime)
      run.concurrently(events.map { event in (event.rawValue, { event.perform(on: operation, of: lifetime) }) })
      if !operation.isFinished { operation.start() }
      run.expect(operation.isFinished, "it has not finished")
      run.expect(operation.starts <= 1, "it ran \(operation.starts) times")
      run.expect(operation.startsAfterEnd == 0, "it began after the end")
      run.expect(operation.cancellations <= 1, "it was told \(operation.cancellations) times that it was cancelled")
      run.expect(operation.finishes <= 1, "observers saw it finish \(operation.finishes) times")
      switch operation.outcome {
      case .succeeded?: run.expect(operation.starts == 1, "it succeeded without having run")
      case .cancelled?: run.expect(operation.isCancelled, "it was cancelled, and says that it was not")
      default: run.expect(false, "its outcome is \(String(describing: operation.outcome))")
      }
    }
  }

  /// Without a start there is nothing to wait for, and two of these meet nowhere. Two who cancel have a test of their own.
  private static let leftOut: Set<[Event]> = [[.wait, .wait], [.wait, .read], [.read, .read], [.cancel, .cancel]]
  private static let pairs: [[Event]] = Event.allCases.indices.flatMap { first in
    Event.allCases[first...].map { [Event.allCases[first], $0] }
  }.filter { !leftOut.contains($0) && (!$0.contains(.wait) || $0.contains(.start)) }

  @Test(arguments: pairs) func everyTwo(_ events: [Event]) { Self.explore(events, preemptions: 2) }

  @Test func twoCancel() { Self.explore([.cancel, .cancel], preemptions: 2) }

  @Test(arguments: [
    [Event.start, .cancel, .end], [.start, .cancel, .wait], [.start, .end, .wait], [.start, .start, .end], [.cancel, .end, .observe],
  ])
  func someThree(_ events: [Event]) { Self.explore(events, preemptions: 2) }

  /// Whoever has ended the owner, and whether the reaper has come by.
  @Test func itIsCancelledWhenTheEndHasReturned() {
    ModelExplorer("operation: end, isCancelled | end, isCancelled | cancel").expectNothing(preemptions: 2) { run in
      let operation = Watched(lifetime: OwnerLifetime())
      let end: @Sendable () -> Void = {
        operation.lifetime.end()
        run.expect(operation.isCancelled, "the end has returned, and it is not cancelled")
      }
      run.concurrently(("one", end), ("two", end), ("cancel", { operation.cancel() }))
      LifetimeReaper.waitUntilIdle()
      run.expect(operation.isFinished && operation.cancellations == 1, "told \(operation.cancellations) times that it was cancelled")
    }
  }

  /// Finished by somebody else, as Foundation's classic asynchronous operations are.
  final class Classic: OwnedOperation, @unchecked Sendable {  // the baton holder's
    var releases = 0
    override var isAsynchronous: Bool { true }
    override func releaseWork() { releases += 1 }
  }

  @Test func twoFinishAnAsynchronousOperation() {
    ModelExplorer("operation: finish | finish | cancel").expectNothing(preemptions: 2, deeper: nil) { run in
      let operation = Classic(lifetime: OwnerLifetime())
      operation.start()
      let firsts = ModelFlag()
      run.concurrently(
        ("one", { if operation.finish() { firsts.count += 1 } }), ("two", { if operation.finish() { firsts.count += 1 } }),
        ("cancel", { operation.cancel() }))
      run.expect(firsts.count == 1, "\(firsts.count) calls were the first to finish it")
      run.expect(operation.releases == 1, "its work was released \(operation.releases) times")
      run.expect(operation.isFinished, "it has not finished")
    }
  }

  // MARK: Timeouts

  /// Finishes when it is cancelled.
  final class Timed: OwnedOperation, @unchecked Sendable {  // the baton holder's
    var releases = 0
    override var isAsynchronous: Bool { true }
    override func releaseWork() { releases += 1 }
    override func didCancel(_ reason: CancellationReason) { finish() }
  }

  private static func exploreTimeout(_ name: String, _ other: @escaping @Sendable (Timed) -> Void) {
    OperationReport.listen { _ in }
    defer { OperationReport.listen(nil) }
    var explorer = ModelExplorer("operation: start, time out | \(name)")
    explorer.earlyTimeouts = 1
    explorer.expectNothing(preemptions: 2, deeper: nil) { run in
      let operation = Timed(lifetime: OwnerLifetime())
      operation.timeout = .seconds(1)
      run.concurrently(("start", { operation.start() }), (name, { other(operation) }))
      // If nobody else does it, the timer does.
      operation.waitUntilFinished()
      DeferredCalls.waitUntilIdle()
      run.expect(operation.releases >= 1, "its work was not released")
      run.expect(operation.lock.withLock { operation.extras?.timer == nil }, "its timer is still there")
      switch operation.outcome {
      case .succeeded?, .cancelled(.timedOut)?: run.expect(operation.isFinished, "it has an outcome, and has not finished")
      case .cancelled?: run.expect(name != "finish", "it was cancelled by nobody")
      default: run.expect(false, "its outcome is \(String(describing: operation.outcome))")
      }
    }
  }

  @Test func timesOutWhileItFinishes() { Self.exploreTimeout("finish") { $0.finish() } }
  @Test func timesOutWhileItIsCancelled() { Self.exploreTimeout("cancel") { $0.cancel() } }
  @Test func timesOutWhileItsOwnerEnds() { Self.exploreTimeout("end") { $0.lifetime.end() } }
}
