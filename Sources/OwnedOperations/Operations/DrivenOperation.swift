/// What operations give to whoever drives their queue, in users' tests.
extension OwnedOperation {
  /// Of the queue that has the operation; nil if threads run it.
  final var driver: (any QueueDriver)? { currentScheduler?.driver }

  /// For the operation's task: nil for the global one.
  final var drivenExecutor: DrivenExecutor? {
    guard let scheduler = currentScheduler, let driver = scheduler.driver else { return nil }
    return DrivenExecutor(self, scheduler, driver)
  }

  final func completionStep(_ block: @escaping @Sendable () -> Void) -> DrivenStep {
    DrivenStep(isShuffled: false) { [self] isNamed in
      block()
      return .ran(isNamed ? "the completion block of \(label)" : nil)
    }
  }

  /// Whether its body, or its task, waits for other work.
  final var isInWait: Bool { lock.withLock { !(extras?.currentWaits.isEmpty ?? true) } }

  /// The operation whose task this is.
  package static var ofCurrentTask: ObjectIdentifier? { OperationTask.current?.operation.map { ObjectIdentifier($0) } }
}

extension QueueDriver {
  /// What tasks wait for may lead elsewhere by now. For the driver, when nothing else is due.
  package func lookAtWaits() { WatchedWaits.look(drivenBy: self) }
}

extension OperationScheduler {
  var driver: (any QueueDriver)? { nil }
  var isShuffled: Bool { false }
}

/// Runs the steps of an asynchronous operation's task.
final class DrivenExecutor: TaskExecutor {
  private let operation: ObjectIdentifier
  private let label: String
  private let scheduler: any OperationScheduler
  private let driver: any QueueDriver

  init(_ operation: OwnedOperation, _ scheduler: any OperationScheduler, _ driver: any QueueDriver) {
    self.operation = ObjectIdentifier(operation)
    label = operation.label
    self.scheduler = scheduler
    self.driver = driver
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    let step = DrivenStep(isShuffled: scheduler.isShuffled, operation: operation) { [self] isNamed in
      runStep(job)
      return .ran(isNamed ? "the task of \(label)" : nil)
    }
    driver.add(step)
  }
}
