import Foundation

/// One piece of work that a queue can start.
///
/// Of which kind it is matters in two places: here, and to the worker that begins it (`Worker.execute`, `Worker.runNested`).
enum WorkItem {
  /// A job with its owner: called with the object that the lifetime is bound to.
  case ownerBlock(ErasedOwnerBody.Body)
  /// A job with a lifetime only, or with neither.
  case block(@Sendable () -> Void)
  /// A job with a lifetime that leaves something to be released when it is over: what runs then is no body.
  case leavingBlock(@Sendable () -> AnyObject?)
  /// A job with an owner that is not the object its lifetime is bound to: several objects share a token.
  case sharedOwnerBlock(SharedOwnerBody)
  case operation(OwnedOperation)
  case executorJob(UnownedJob)
  /// A piece of something that comes in pieces.
  case graphNode(any NodeRun, UInt32)
}

// MARK: What is asked of it

extension WorkItem {
  enum Kind {
    case job, operation, taskStep, graphNode

    /// Whether it tells the queue itself that it is over: nobody else counts it.
    var countsItself: Bool { self == .operation || self == .graphNode }
  }

  var kind: Kind {
    switch self {
    case .ownerBlock, .block, .leavingBlock, .sharedOwnerBlock: .job
    case .operation: .operation
    case .executorJob: .taskStep
    case .graphNode: .graphNode
    }
  }

  var operation: OwnedOperation? {
    if case .operation(let operation) = self { operation } else { nil }
  }

  var node: (run: any NodeRun, number: UInt32)? {
    if case .graphNode(let run, let number) = self { (run, number) } else { nil }
  }

  /// Whether nothing would come of it if its turn came.
  var isDead: Bool {
    switch self {
    case .operation(let operation): operation.load().isFinished
    case .graphNode(let run, let number): !run.isListed(number)
    case .ownerBlock, .block, .leavingBlock, .sharedOwnerBlock, .executorJob: false
    }
  }
}

/// See `WorkItem.sharedOwnerBlock`.
final class SharedOwnerBody: Sendable {
  let hold: OwnerHold
  let body: ErasedOwnerBody.Body

  init(_ hold: OwnerHold, _ body: @escaping ErasedOwnerBody.Body) {
    self.hold = hold
    self.body = body
  }
}
