import Foundation
import Synchronization

/// Foundation's base class, and its queues, learn of our changes here, by the door it leaves open for subclasses that keep their own state.
extension OwnedOperation {
  enum FoundationKey: String {
    case isReady, isExecuting, isFinished, isCancelled
  }

  /// Once, and only for an operation that was started, is in a queue of ours, or was refused by one for its owner's end.
  ///
  /// One that waits unstarted in a queue of Foundation's, and has finished because its owner ended, must not be announced. That queue keeps
  /// an unretained pointer to it until it has started it. It will start it, since it hears that the operation is ready.
  final func tellFoundationOfFinish() {
    let told = StateWord.Bits.foundationWasTold.rawValue
    let before = StateWord(rawValue: word.bitwiseOr(told, ordering: .acquiringAndReleasing).oldValue)
    guard !before.contains(.foundationWasTold) else { return }
    tellFoundation(.isFinished)
    if before.contains(.readinessWasRead) { wakeWaiters() }
  }

  /// Whether the queue of Foundation's that runs on this thread has this operation. Linear; for calls that would otherwise be refused.
  final var isRunByFoundationQueue: Bool {
    OperationQueue.current?.operations.contains { $0 === self } ?? false
  }
}
