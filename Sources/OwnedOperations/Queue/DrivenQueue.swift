import Foundation

/// Queues whose work is run by a driver, in users' tests. The scheduler is the same; only who runs it is another.
///
/// - A worker that is due is a step of the driver's. It takes one item, runs it, settles, and leaves; if there is more to do, it is sent
///   for again.
/// - How many workers may be under way depends on the limit only, neither on processors nor on how long items take.
/// - Nothing is taken in advance, and each node of a graph is a work item.
extension OwnerScopedQueue {
  /// Makes a queue whose work the driver runs.
  package convenience init(name: String?, maxConcurrentOperationCount: Int, driver: any QueueDriver, isShuffled: Bool) {
    self.init(
      name: name, limit: maxConcurrentOperationCount, qualityOfService: .default, underlyingQueue: nil,
      driving: QueueDriving(driver, isShuffled: isShuffled))
  }

  var driver: (any QueueDriver)? { core.driver }

  var isShuffled: Bool { core.isShuffled }

  /// Asks the operations that nobody announces, and whether owners are held again. For the driver, when nothing else is due.
  package func askUnannounced() {
    let (isWatching, heldBack) = core.read { scheduler in
      var heldBack: [OwnerLifetime] = []
      for phase in scheduler.phases {
        phase.forEachOwnerQueue { if $0.isHeldBack, let lifetime = $0.lifetime { heldBack.append(lifetime) } }
      }
      return (!scheduler.watched.isEmpty, heldBack)
    }
    if isWatching { core.askWatched() }
    for lifetime in heldBack { lifetime.ownerHold?.lookAgainIfHeldBack() }
  }

  /// A step of a task that has a turn in this queue.
  func taskStep(of turn: ObjectIdentifier, _ body: @escaping @Sendable () -> Void) -> DrivenStep {
    DrivenStep(isShuffled: isShuffled, operation: turn) { [self] isNamed in
      body()
      return .ran(isNamed ? "a task in \(core.quotedName)" : nil)
    }
  }

  /// Has the driver call the body when the delay has passed, unless the owner ends first; it is released then.
  func call(_ body: @escaping @Sendable () -> Void, after delay: Duration, _ lifetime: OwnerLifetime, by driver: any QueueDriver) {
    let kind = DrivenCall.Kind.job(queue: core.read { $0.name }, owner: lifetime.driverName)
    let call = DrivenCall(kind, while: { lifetime.isAlive }, body)
    let end = LifetimeEndCall(lifetime) { [weak call] in call?.cancel() }
    call.keep(end)
    guard end.join() else { return call.cancel() }
    driver.add(call, after: delay)
  }

}
