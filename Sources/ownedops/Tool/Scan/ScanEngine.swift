import Foundation
import OwnedOperations

/// What the scan needs of a queue: jobs of an owner, with priorities and dependencies.
protocol ScanEngine: Sendable {
  associatedtype Job: Sendable

  /// How many jobs run at a time, at most.
  var workers: Int { get }
  /// - Parameter body: returns when the job is done; asks itself whether it should stop early.
  func makeJob(owner: DirectoryNode, priority: Operation.QueuePriority, _ body: @escaping @Sendable () -> Void) -> Job
  /// Before the job is submitted. The dependency may have been, and be done.
  func add(dependency: Job, to job: Job)
  func submit(_ jobs: [Job])
  /// Until nothing is pending or running.
  func waitUntilFinished()
  /// All owners end. Called once, on any thread.
  func end()
}

/// The library's queue. The owners end; nothing else needs to be done, and no job asks whether its owner is there.
final class OwnedEngine: ScanEngine {
  private let queue: OwnerScopedQueue
  private let root: OwnerLifetime
  let workers: Int

  init(root: OwnerLifetime, workers: Int) {
    self.root = root
    self.workers = workers
    queue = OwnerScopedQueue(name: "ownedops.scan", maxConcurrentOperationCount: workers)
  }

  func makeJob(owner: DirectoryNode, priority: Operation.QueuePriority, _ body: @escaping @Sendable () -> Void) -> OwnedOperation {
    let operation = OwnedBlockOperation(lifetime: owner.lifetime, body)
    if priority != .normal { operation.queuePriority = priority }
    return operation
  }

  func add(dependency: OwnedOperation, to job: OwnedOperation) { job.addDependency(dependency) }

  func submit(_ jobs: [OwnedOperation]) {
    do throws(OwnerScopedQueueError) {
      try queue.enqueue(jobs)
    } catch {
      // The owners have ended meanwhile, and with them the jobs: they finish by themselves.
    }
  }

  func waitUntilFinished() { queue.waitUntilAllOperationsAreFinished() }
  func end() { root.end() }
}

/// Foundation's queue, used with care: everything is cancelled, and bodies ask whether their owner is there.
final class FoundationEngine: ScanEngine {
  private let queue = OperationQueue()
  private let root: OwnerLifetime
  /// Foundation's operations refer to their dependents without keeping them. On Linux an operation that finishes while others are being
  /// cancelled looks at dependents that have been freed. So they are kept for as long as the engine is there.
  private let kept = Guarded<[BlockOperation]>([])
  let workers: Int

  init(root: OwnerLifetime, workers: Int) {
    self.root = root
    self.workers = workers
    queue.maxConcurrentOperationCount = workers
  }

  func makeJob(owner: DirectoryNode, priority: Operation.QueuePriority, _ body: @escaping @Sendable () -> Void) -> BlockOperation {
    let operation = BlockOperation(block: body)
    operation.queuePriority = priority
    return operation
  }

  func add(dependency: BlockOperation, to job: BlockOperation) { job.addDependency(dependency) }

  func submit(_ jobs: [BlockOperation]) {
    kept.withLock { $0 += jobs }
    queue.addOperations(jobs, waitUntilFinished: false)
    if !root.isAlive { for job in jobs { job.cancel() } }
  }

  func waitUntilFinished() { queue.waitUntilAllOperationsAreFinished() }

  func end() {
    root.end()
    queue.cancelAllOperations()
  }
}

/// What people write around GCD: counted dependencies, lists by priority, a weak look at the owner first. Nothing can be taken back.
final class DispatchEngine: ScanEngine {
  final class Job: Sendable {
    fileprivate struct State {
      /// One more than it depends on, until it is submitted.
      var outstanding = 1
      var dependents: [Job] = []
      var body: (@Sendable () -> Void)?
      var isDone = false
    }

    fileprivate let state: Guarded<State>
    fileprivate let level: Int

    fileprivate init(level: Int, _ body: @escaping @Sendable () -> Void) {
      self.level = level
      state = Guarded(State(body: body))
    }
  }

  private struct Ready {
    var levels: [[Job]] = Array(repeating: [], count: 5)
    var heads = Array(repeating: 0, count: 5)
    var active = 0
  }

  private let queue = DispatchQueue(label: "ownedops.scan.gcd", attributes: .concurrent)
  private let group = DispatchGroup()
  private let ready = Guarded(Ready())
  let workers: Int
  private let root: OwnerLifetime

  init(root: OwnerLifetime, workers: Int) {
    self.root = root
    self.workers = workers
  }

  func makeJob(owner: DirectoryNode, priority: Operation.QueuePriority, _ body: @escaping @Sendable () -> Void) -> Job {
    let level =
      switch priority {
      case .veryHigh: 0
      case .high: 1
      case .low: 3
      case .veryLow: 4
      default: 2
      }
    return Job(level: level, body)
  }

  func add(dependency: Job, to job: Job) {
    dependency.state.withLock { dependency in
      guard !dependency.isDone else { return }
      job.state.withLock { $0.outstanding += 1 }
      dependency.dependents.append(job)
    }
  }

  func submit(_ jobs: [Job]) {
    for _ in jobs { group.enter() }
    for job in jobs { release(job) }
  }

  private func release(_ job: Job) {
    let isReady = job.state.withLock { state in
      state.outstanding -= 1
      return state.outstanding == 0
    }
    guard isReady else { return }
    let needsWorker = ready.withLock { ready in
      ready.levels[job.level].append(job)
      guard ready.active < workers else { return false }
      ready.active += 1
      return true
    }
    if needsWorker { queue.async { self.runNext() } }
  }

  private func runNext() {
    let job = ready.withLock { ready -> Job? in
      for level in 0..<5 where ready.heads[level] < ready.levels[level].count {
        let job = ready.levels[level][ready.heads[level]]
        ready.heads[level] += 1
        if ready.heads[level] == ready.levels[level].count {
          ready.levels[level].removeAll(keepingCapacity: true)
          ready.heads[level] = 0
        }
        return job
      }
      ready.active -= 1
      return nil
    }
    guard let job else { return }
    job.state.withLock { $0.body }?()
    let dependents = job.state.withLock { state in
      state.body = nil
      state.isDone = true
      defer { state.dependents = [] }
      return state.dependents
    }
    for dependent in dependents { release(dependent) }
    group.leave()
    queue.async { self.runNext() }
  }

  func waitUntilFinished() { group.wait() }
  func end() { root.end() }
}
