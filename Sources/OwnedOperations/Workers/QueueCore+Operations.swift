import Dispatch
import Foundation

/// How a queue starts operations when they are ready, and hears of their end.
///
/// - An operation is attached and registered in one hold of the lock, and stays registered until it has told us of its finish.
/// - When it is ready it also has a work item in a ready list.
/// - A work item is out of date if its operation has been started, has finished, or has moved to another priority. That is found out when
///   its turn comes.
/// - The claim that `startIfReady` makes in the operation's own state word sees to it that it is started once.
extension QueueCore {
  // MARK: Running

  /// On a worker: starts the operation whose turn it is.
  func run(_ operation: OwnedOperation, at level: Int) {
    guard operation.state != .finished, isCurrent(operation, at: level) else { return }
    guard !operation.mayHaveCondition || !operation.isReadyByDependencies || saysYes(operation) else {
      holdBack(operation, at: level)
      return
    }
    let qualityOfService = operation.explicitQualityOfService
    let isStarted = qualityOfService.map { start(operation, with: $0) } ?? operation.startIfReady()
    if !isStarted {
      mutate { scheduler, _ in scheduler.useUp(operation, at: level) }
    } else if operation.isExecuting {
      detach(operation)
    }
  }

  /// A plain operation is asked twice: Foundation asks once more in `start()`, as for any that is in no queue of its own, and stops the
  /// process if the answer is no.
  private func saysYes(_ operation: OwnedOperation) -> Bool {
    operation.answersReady && (!operation.isToldOfNothing || operation.answersReady)
  }

  private func start(_ operation: OwnedOperation, with qualityOfService: QualityOfService) -> Bool {
    var isStarted = false
    DispatchWorkItem(qos: qualityOfService.dispatchQoS, flags: .enforceQoS) { isStarted = operation.startIfReady() }.perform()
    return isStarted
  }

  /// Whether the item is the one to go by. If the priority has been changed since it was made, there is another.
  private func isCurrent(_ operation: OwnedOperation, at level: Int) -> Bool {
    let current = PriorityLevel.of(operation.scheduledPriority)
    guard current != level else { return true }
    return note { $0.useUp(operation, at: level, unlessAt: current) }
  }

  /// The operation goes on without a thread of ours, and takes a permit with it. What the worker has taken beside it needs another.
  private func detach(_ operation: OwnedOperation) {
    let worker = Worker.current.flatMap { $0.works(for: self) ? $0 : nil }
    mutate { scheduler, _ in scheduler.detach(operation, from: worker) }
  }

  /// What `Scheduler.addTurn` has said is to begin, on the thread that has added it.
  func begin(_ turn: OwnedOperation) {
    // If only bodies hold the owner, a worker will find that again, and put it where it waits.
    let isStarted = turn.holdsOwner && turn.beginForOwner() != nil ? false : turn.startIfReady()
    if turn.holdsOwner, !turn.isExecuting { turn.endForOwner() }
    if !isStarted { mutate { scheduler, _ in scheduler.returnTurn(turn) } }
  }

  // MARK: What operations say

  func operationDidBecomeReady(_ operation: OwnedOperation) {
    // Unless a work item that was there has been claimed since.
    mutate { scheduler, _ in scheduler.makeReadyIfWaiting(operation) }
  }
}
