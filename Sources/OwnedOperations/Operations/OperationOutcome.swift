import Foundation

/// How far an operation has come.
public enum OperationState: Hashable, Sendable {
  /// Waits for dependencies.
  case pending
  /// Could start: no dependency is outstanding, or the operation has been cancelled.
  case ready
  /// Its work has begun.
  case executing
  /// It has succeeded, failed, or been cancelled for good.
  case finished
}

/// Why an operation was cancelled.
public enum CancellationReason: Sendable, Equatable {
  /// Somebody called `cancel()`.
  case requested
  /// The owner ended before the operation had finished.
  case ownerEnded(OwnerID)
  /// The dependency named failed or was cancelled, and the operation's ``DependencyPolicy`` is `requireSuccess`. It is asked for its name
  /// when somebody first asks for this reason, or `didCancel` is about to be told of it; in the background when it is removed before that.
  case dependencyFailed(String)
  /// The operation ran longer than its `timeout`.
  case timedOut(Duration)
}

extension CancellationReason: CustomStringConvertible {
  /// In words, for logs and messages.
  public var description: String {
    switch self {
    case .requested: "cancel() was called"
    case .ownerEnded(let owner): "\(owner) ended"
    case .dependencyFailed(let name): "its dependency \(name) did not succeed"
    case .timedOut(let timeout): "it timed out after \(timeout)"
    }
  }
}

/// How an operation ended.
public enum OperationOutcome: Sendable {
  /// The work ran and threw nothing.
  case succeeded
  /// The work threw, or `finish(throwing:)` was given an error.
  case failed(any Error)
  /// The operation was cancelled before it finished, whether its work had run or not.
  case cancelled(CancellationReason)
}

extension OperationOutcome: CustomStringConvertible {
  /// In words, for logs and messages.
  public var description: String {
    switch self {
    case .succeeded: "succeeded"
    case .failed(let error): "failed: \(error)"
    case .cancelled(let reason): "cancelled: \(reason)"
    }
  }
}

/// What a dependency that did not succeed means for those that depend on it.
public enum DependencyPolicy: Sendable, Hashable {
  /// Nothing: a dependency that has finished lets its dependents run, however it finished. Foundation's rule.
  case runAlways
  /// A dependency that fails or is cancelled cancels the operation, and in turn those that require its success.
  case requireSuccess
}
