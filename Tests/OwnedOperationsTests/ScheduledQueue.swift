import Foundation
import Testing

@testable import OwnedOperations

/// A scheduler, and what its changes have asked for. Nobody does it but the test.
final class ScheduledQueue {
  var scheduler: Scheduler
  private let maker = Maker()
  /// The workers that were sent for, in order.
  private(set) var sent: [Worker] = []
  private(set) var admitted = 0
  private(set) var resumed = 0
  private(set) var departed = 0
  private(set) var dueProgress: QueueProgress?

  init(processors: Int = 4) {
    scheduler = Scheduler(
      name: "", limit: .max, qualityOfService: .default, underlyingQueue: nil, ownLifetime: OwnerLifetime(), processors: processors)
    scheduler.listener = maker
  }

  deinit {
    scheduler.deferredReleases += scheduler.phases.flatMap { $0.removeAllOwnerQueues() }
    _ = OwnerQueueDepartures.complete(scheduler.departures.ownerQueues)
    for work in scheduler.deferredReleases { work.release() }
  }

  var text: String { scheduler.description }
  var hasWork: Bool { scheduler.hasWork }
  /// How many owners each phase has.
  var phases: [Int] { scheduler.phases.map(\.ownerQueueCount) }

  func forgetSent() { sent = [] }

  struct Outcome {
    var worker: Worker?
    var asksForMonitor = false
    var admitted = 0
    var waiters = 0
    var questionDeadline: UInt64?
  }

  /// What `QueueCore` does in one hold of the lock, and what it would do then.
  @discardableResult
  func change(_ body: (inout Scheduler, inout FollowUp) -> Void) -> Outcome {
    var followUp = FollowUp()
    body(&scheduler, &followUp)
    var outcome = Outcome()
    outcome.admitted = scheduler.admitReturning().count
    outcome.worker = (followUp.worker?.object ?? scheduler.workerToDispatch()) as? Worker
    if let worker = outcome.worker { sent.append(worker) }
    outcome.asksForMonitor = scheduler.takeMonitorRequest()
    outcome.waiters = scheduler.hasDueWaiters ? scheduler.takeDueWaiters().count : 0
    if let progress = scheduler.takeDueProgress() { dueProgress = progress }
    outcome.questionDeadline = followUp.hasQuestion ? followUp.questionDeadline : nil
    admitted += outcome.admitted
    resumed += outcome.waiters
    departed += scheduler.departures.ownerQueues.count
    var departing: [OwnerQueue] = []
    swap(&departing, &scheduler.departures.ownerQueues)
    var spares = OwnerQueueDepartures.complete(consume departing)
    scheduler.departures.keep(&spares)
    if scheduler.reopensNestedWork { scheduler.reopenNestedWork() }
    return outcome
  }

  // MARK: Jobs

  @discardableResult
  func add(_ name: String, _ priority: Operation.QueuePriority = .normal, of owner: OwnerLifetime? = nil) -> Worker? {
    addWithOutcome(name, priority, of: owner).worker
  }

  func addWithOutcome(_ name: String, _ priority: Operation.QueuePriority = .normal, of owner: OwnerLifetime? = nil) -> Outcome {
    change { scheduler, followUp in
      if case .taken = add(name, priority, owner, &scheduler, &followUp) { return }
      Issue.record("\(name) was not taken")
    }
  }

  @discardableResult
  func addAlone(_ name: String, of owner: OwnerLifetime) -> Worker? {
    change { scheduler, _ in
      let work = WorkItem.block { [begun = maker.begun] in begun.write(name) }
      if case .taken = scheduler.addAlone(work, owner, level: PriorityLevel.of(.normal)) { return }
      Issue.record("\(name) was not taken")
    }.worker
  }

  func isRefused(_ name: String, of owner: OwnerLifetime) -> Bool {
    var isRefused = false
    change { scheduler, followUp in if case .refused = add(name, .normal, owner, &scheduler, &followUp) { isRefused = true } }
    return isRefused
  }

  private func add(
    _ name: String, _ priority: Operation.QueuePriority, _ owner: OwnerLifetime?, _ scheduler: inout Scheduler, _ followUp: inout FollowUp
  ) -> Scheduler.Addition {
    let work = WorkItem.block { [begun = maker.begun] in begun.write(name) }
    return scheduler.add(work, owner.map { Borrowed($0) }, level: PriorityLevel.of(priority), &followUp)
  }

  func ownerQueue(of lifetime: OwnerLifetime) -> OwnerQueue? { scheduler.phases[0].existingOwnerQueue(for: lifetime) }

  // MARK: Workers

  enum Next: Equatable {
    case runs, looksAgain, another
    case leaves(isLast: Bool)
  }

  /// The worker looks what it is to do next.
  func look(_ worker: Worker?, after last: Scheduler.LastStep = .nothing) -> Next {
    guard let worker else { return .another }
    var next = Next.another
    change { scheduler, _ in
      switch scheduler.nextStep(of: worker, after: last, isTimeUp: false) {
      case .run: next = .runs
      case .lookAgain, .sweep: next = .looksAgain
      case .leave(let isLast): next = .leaves(isLast: isLast)
      case .letOthersRun, .leaveLater: break
      }
    }
    return next
  }

  /// The worker runs what there is until it leaves.
  /// - Returns: what it has run.
  func drain(_ worker: Worker?, after last: Scheduler.LastStep = .nothing) -> [String] {
    guard let worker else { return [] }
    var (last, names) = (last, [String]())
    while true {
      while let name = worker.begin() {
        names.append(name)
        worker.end()
        last = .items
      }
      switch look(worker, after: last) {
      case .runs, .looksAgain: last = .nothing
      case .leaves, .another: return names
      }
    }
  }

  func lookAtWorkers() -> Outcome { change { scheduler, _ in scheduler.lookAtWorkers() } }

  /// Has no thread: it begins and ends its items when the test says so.
  final class Worker: ScheduledWorker {
    private let begun: Journal<String>
    private var index = 0
    /// Of its processor, in nanoseconds.
    var usedTime: UInt64 = 0

    init(_ generation: Int, _ begun: Journal<String>) {
      self.begun = begun
      super.init(generation: generation)
    }

    override var processorTime: UInt64? { usedTime }
    override func dispatch() { Issue.record("the scheduler has dispatched a worker itself") }

    /// - Returns: the job that has begun; nil if there is none.
    func begin() -> String? {
      guard let (index, work, ownerQueue, _) = batch.begin() else { return nil }
      self.index = index
      currentOwnerQueue = ownerQueue.object
      batch.setBegun()
      if case .block(let body) = work { body() }
      return begun.entries.last
    }

    func end() {
      batch.setOver(.succeeded, at: index)
      currentOwnerQueue = nil
    }
  }

  private final class Maker: WorkerMaker, OwnerEndListener {
    let begun = Journal<String>()

    func makeWorker(_ generation: Int, qualityOfService: QualityOfService, underlyingQueue: DispatchQueue?) -> ScheduledWorker {
      Worker(generation, begun)
    }

    func ownersDidEnd(_ ownerQueues: consuming [OwnerQueue]) {}
    func ownerDidEndAtOnce(_ ownerQueue: Retained<OwnerQueue>) -> Bool { false }
  }
}
