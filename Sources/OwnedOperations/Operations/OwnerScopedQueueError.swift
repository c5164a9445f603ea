import Foundation

/// What can be wrong with work handed over, each naming the culprit.
public enum OwnerScopedQueueError: Error, Sendable, Equatable {
  /// The operations named depend on each other in a circle: each on the next, the last on the first.
  case dependencyCycle([String])
  /// The operation named is in a queue.
  case alreadyEnqueued(String)
  /// The operation named has been started.
  case alreadyExecuting(String)
  /// The operation named has finished.
  case alreadyFinished(String)
  /// The same operation stands twice in one call.
  case duplicateOperation(String)
  /// The work named belongs to an owner that has ended.
  case ownerEnded(operation: String, owner: OwnerID)
  /// A number that is no limit, because it is negative.
  case invalidLimit(Int)
  /// A node of another graph.
  case foreignNode(String)
  /// The operation would wait for its own end.
  case waitingForItself(String)
  /// The operation was started by hand while dependencies, or a condition of its own, still hold it back.
  case notReady(String)
}

/// What can be wrong with a call on an operation.
public typealias OwnedOperationError = OwnerScopedQueueError

extension OwnerScopedQueueError: LocalizedError, CustomStringConvertible {
  /// What was attempted, what is wrong with it, and what to do.
  public var description: String {
    switch self {
    case .dependencyCycle(let names):
      "operations depend on each other in a circle: \((names + names.prefix(1)).joined(separator: " -> ")); remove one of these dependencies"
    case .alreadyEnqueued(let name):
      "\(name) is in a queue already; an operation can be added once, make a new one"
    case .alreadyExecuting(let name):
      "\(name) has been started already; an operation runs once, make a new one"
    case .alreadyFinished(let name):
      "\(name) has finished already; an operation runs once, make a new one"
    case .duplicateOperation(let name):
      "\(name) stands in the list twice; an operation can be added once, remove one of the two"
    case .ownerEnded(let name, let owner):
      "\(name) can't run, because \(owner) has ended; make it for an owner that is alive"
    case .invalidLimit(let limit):
      "\(limit) is no limit for concurrent operations; give a number that is not negative, or OperationQueue.defaultMaxConcurrentOperationCount"
    case .foreignNode(let name):
      "\(name) is a node of another graph; connect nodes of the same graph"
    case .waitingForItself(let name):
      "\(name) can't wait for its own end; wait from outside its body, or depend on it"
    case .notReady(let name):
      "\(name) can't be started, because it is not ready; wait for its dependencies, or add it to a queue"
    }
  }

  /// The ``description``.
  public var errorDescription: String? { description }
}
