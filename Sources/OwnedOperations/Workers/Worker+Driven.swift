/// A worker whose thread is a driver's; see `DrivenQueue`.
extension Worker {
  /// What the worker was sent for.
  /// - Parameter host: the queue, which is kept until then.
  func step(keeping host: (any QueueHost)?, isShuffled: Bool) -> DrivenStep {
    let borrowed = Borrowed(self)  // the queue keeps the worker until it has left
    return DrivenStep(isShuffled: isShuffled) { isNamed in
      // Bodies must not take the task that waits for them on this thread, if one does, for their own.
      OperationTask.$current.withValue(nil) {
        let worker = borrowed.object  // which the queue may let go of in its step
        return withExtendedLifetime(host) { withAutoreleasePool { worker.takeStep(isNamed: isNamed) } }
      }
    }
  }

  private func takeStep(isNamed: Bool) -> DrivenStep.Outcome {
    beginDrain()
    while !hasWork {
      switch core.mutate({ scheduler, _ in scheduler.nextStep(of: self, after: .nothing, isTimeUp: false) }) {
      case .run, .lookAgain: continue
      case .sweep: core.sweepOwnerQueues()
      case .leave(let isLast):
        tidyUp(isLast: isLast)
        return .nothing
      case .leaveLater, .letOthersRun: return .nothing
      }
    }
    let name = isNamed ? nameOfNext : nil
    let isBarrier = barrier != nil
    becomeCurrent { run() }
    let isLast = core.mutate { scheduler, _ in scheduler.endStep(of: self, after: isBarrier ? .barrier : .items) }
    tidyUp(isLast: isLast)
    return .ran(name)
  }

  /// Like a thread that goes.
  private func tidyUp(isLast: Bool) {
    if isLast { core.tidyUp() }
  }

  private var nameOfNext: String {
    let (lifetime, record) = core.read { _ in batch.next }
    if let name = record?.driverName { return "\(name) in \(core.quotedName)" }
    if barrier != nil { return "a barrier in \(core.quotedName)" }
    return lifetime.map { "work of \($0.driverName) in \(core.quotedName)" } ?? "work in \(core.quotedName)"
  }
}

extension QueueCore {
  /// Whether the driver chooses among the work.
  var isShuffled: Bool { driver != nil && read { $0.shuffler != nil } }

  var quotedName: String { "\"\(read { $0.name })\"" }
}

extension OwnerLifetime {
  /// How it is called in what a driver says.
  var driverName: String { name.map { "\"\($0)\"" } ?? "\(id)" }
}
