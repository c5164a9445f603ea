import Foundation
import Synchronization
import Testing

@testable import OwnedOperations

/// Where a task goes on is for its executor to say. One of the user's may block, and whoever resumes the task is held up by it nowhere.
@Suite struct BlockingExecutorTests {
  private let queue = OwnerScopedQueue()
  private let executor = BlockingExecutor()

  /// One whose mailbox is full, for example.
  private final class BlockingExecutor: TaskExecutor {
    let gate = Gate()
    private let isToBlock = Atomic(false)
    private let running = Counter()
    private let threads = DispatchQueue(label: "executor", attributes: .concurrent)

    /// The next job is held up where it comes from.
    func blocks() { isToBlock.store(true, ordering: .releasing) }

    /// All its tasks are suspended, or over.
    var isAtRest: Bool { running.value == 0 }

    func enqueue(_ job: consuming ExecutorJob) {
      let job = UnownedJob(job)
      running.add()
      if isToBlock.exchange(false, ordering: .acquiringAndReleasing) { gate.pass() }
      threads.async { [self] in
        job.runSynchronously(on: asUnownedTaskExecutor())
        running.add(-1)
      }
    }
  }

  /// Starts a task of the executor's that waits, and returns when it does.
  /// - Returns: signalled when the task is over.
  private func task(_ isWaiting: @autoclosure @escaping @Sendable () -> Bool, _ wait: @escaping @Sendable () async -> Void)
    -> DispatchSemaphore
  {
    let isOver = DispatchSemaphore(value: 0)
    Task(executorPreference: executor) {
      await wait()
      isOver.signal()
    }
    // It is known to wait before it is suspended. If it were resumed in between, it would just go on.
    let executor = executor
    let waits = eventually { isWaiting() && executor.isAtRest }
    #expect(waits)
    executor.blocks()
    return isOver
  }

  private func thread(_ isWaiting: @autoclosure @escaping @Sendable () -> Bool, _ wait: @escaping @Sendable () -> Void) -> DispatchSemaphore
  {
    let isOver = DispatchSemaphore(value: 0)
    Thread.detachNewThread {
      wait()
      isOver.signal()
    }
    #expect(eventually(isWaiting))
    return isOver
  }

  private func goesOn(_ task: DispatchSemaphore) {
    executor.gate.open()
    #expect(task.waitUntilSignalled())
    #expect(queue.becomesIdle())
  }

  // MARK: Workers

  @Test func theWorkerLeavesThatHasWokenTheTask() {
    let (owner, job) = (OwnerLifetime(), Gate())
    queue.async(lifetime: owner) { job.pass() }
    #expect(job.hasBegun())
    let task = task(queue.snapshot.waits == 1) { [queue] in await queue.finished(ownedBy: owner) }
    job.open()
    #expect(executor.gate.hasBegun())
    #expect(eventually { queue.snapshot.activeWorkers == 0 })
    goesOn(task)
  }

  /// The worker that counts the last job of an owner takes what is next at the same time.
  @Test(arguments: [false, true]) func theBarrierBehindTheLastJobRuns(isOwned: Bool) {
    let (owner, other, job) = (OwnerLifetime(), OwnerLifetime(), Gate())
    let ran = DispatchSemaphore(value: 0)
    queue.async(lifetime: owner) { job.pass() }
    #expect(job.hasBegun())
    let task = task(queue.snapshot.waits == 1) { [queue] in await queue.finished(ownedBy: owner) }
    if isOwned {
      queue.addBarrier(lifetime: other) { ran.signal() }
    } else {
      queue.addBarrierBlock { ran.signal() }
    }
    queue.async(lifetime: other) { ran.signal() }
    job.open()
    #expect(executor.gate.hasBegun())
    for _ in 0..<2 { #expect(ran.waitUntilSignalled()) }
    goesOn(task)
  }

  // MARK: Ends

  /// Two owners end together. A task waits for the one, and a thread for the other.
  /// - Parameter jobs: the other's; many are counted by themselves.
  @Test(arguments: [1, 10, 1_000], [false, true]) func whatEndsTogetherIsCountedAndReleased(jobs: Int, forAGraph: Bool) throws {
    queue.isSuspended = true
    let (one, other) = (OwnerLifetime(), OwnerLifetime())
    let released = DispatchSemaphore(value: 0)
    var run: GraphRun?
    if forAGraph {
      let graph = OperationGraph(lifetime: one)
      graph.node {}
      run = try graph.run(on: queue)
    } else {
      queue.async(lifetime: one) {}
    }
    for _ in 0..<jobs {
      let probe = DeinitProbe { released.signal() }
      queue.async(lifetime: other) { probe.mustNotRun() }
    }
    let task = task(forAGraph || queue.snapshot.waits == 1) { [queue, run] in
      if let run { await run.finished() } else { await queue.finished(ownedBy: one) }
    }
    if let run { #expect(eventually { run.waiterCount == 1 }) }
    let waits = thread(queue.snapshot.waits == (forAGraph ? 1 : 2)) { [queue] in queue.waitUntilFinished(ownedBy: other) }
    for lifetime in [one, other] {
      LifetimeReaper.hold(lifetime)
      lifetime.end()
    }
    Thread.detachNewThread { [queue] in queue.tellOfEnds(of: [one, other]) }
    #expect(executor.gate.hasBegun())
    #expect((0..<jobs).allSatisfy { _ in released.waitUntilSignalled() })
    #expect(waits.waitUntilSignalled())
    for lifetime in [one, other] { LifetimeReaper.resume(lifetime) }
    queue.isSuspended = false
    goesOn(task)
  }

  @Test func whatIsCancelledTogetherIsCountedAndReleased() {
    queue.isSuspended = true
    let (one, other) = (OwnerLifetime(), OwnerLifetime())
    let operation = queue.addOperation(lifetime: other) {}
    for lifetime in [one, other] { queue.async(lifetime: lifetime) {} }
    let task = task(queue.snapshot.waits == 1) { [queue] in await queue.finished(ownedBy: one) }
    let waits = thread(queue.snapshot.waits == 2) { [queue] in queue.waitUntilFinished(ownedBy: other) }
    let cancels = thread(true) { [queue] in queue.cancelAllOperations() }
    #expect(executor.gate.hasBegun())
    #expect(waits.waitUntilSignalled())
    #expect(cancels.waitUntilSignalled())
    #expect(operation.isCancelled)
    queue.isSuspended = false
    goesOn(task)
  }

  // MARK: Graphs and operations

  @Test func otherWaitsForAGraphEndAndItsActionsRun() throws {
    queue.isSuspended = true
    let graph = OperationGraph(lifetime: .forTests)
    graph.node {}
    let run = try graph.run(on: queue)
    let task = task(run.waiterCount == 1) { await run.finished() }
    let waits = thread(run.waiterCount == 2) { run.wait() }
    let acted = DispatchSemaphore(value: 0)
    run.onFinish { _ in acted.signal() }
    queue.isSuspended = false
    #expect(executor.gate.hasBegun())
    #expect(waits.waitUntilSignalled())
    #expect(acted.waitUntilSignalled())
    goesOn(task)
  }

  @Test func otherWaitsForAnOperationEndAndItsBlockRuns() {
    queue.isSuspended = true
    let completed = DispatchSemaphore(value: 0)
    let operation = queue.addOperation(lifetime: .forTests) {}
    operation.completionBlock = { completed.signal() }
    let task = task(operation.waiterCount == 1) { await operation.finished() }
    let waits = thread(operation.waiterCount == 2) { operation.waitUntilFinished() }
    let dependent = OwnedBlockOperation(lifetime: .forTests) {}
    dependent.addDependency(operation)
    queue.addOperation(dependent)
    queue.isSuspended = false
    #expect(executor.gate.hasBegun())
    #expect(waits.waitUntilSignalled())
    #expect(completed.waitUntilSignalled())
    #expect(eventually { dependent.isFinished })
    goesOn(task)
  }

  // MARK: Timers

  @Test func otherDrainsHaveTheirTimeouts() {
    queue.isSuspended = true
    let owners = [OwnerLifetime(), OwnerLifetime()]
    for owner in owners { queue.async(lifetime: owner) {} }
    DrainOutcome.timerQueue.suspend()
    let first = task(queue.snapshot.waits == 1) { await owners[0].drain(on: queue, timeout: .milliseconds(1)) }
    let second = DispatchSemaphore(value: 0)
    Task {
      await owners[1].drain(on: queue, timeout: .milliseconds(1))
      second.signal()
    }
    #expect(eventually { queue.snapshot.waits == 2 })
    DrainOutcome.timerQueue.resume()
    #expect(executor.gate.hasBegun())
    #expect(second.waitUntilSignalled())
    queue.isSuspended = false
    goesOn(first)
  }

  // MARK: Other tasks of the executor

  @Test func otherTasksGoOn() {
    queue.isSuspended = true
    let owner = OwnerLifetime()
    queue.async(lifetime: owner) {}
    let isOver = DispatchSemaphore(value: 0)
    for number in 0..<50 {
      Task(executorPreference: executor) { [queue] in
        await queue.finished(ownedBy: owner)
        isOver.signal()
      }
      #expect(eventually { queue.snapshot.waits == number + 1 })
    }
    executor.blocks()
    queue.isSuspended = false
    #expect(executor.gate.hasBegun())
    for _ in 0..<49 { #expect(isOver.waitUntilSignalled()) }
    goesOn(isOver)
  }

  /// The runtime resumes no task while a cancellation handler of it is called, and this one waits for another task.
  @Test func otherTasksGoOnWhileOneIsBeingCancelled() {
    queue.isSuspended = true
    let operations = (0..<2).map { _ in queue.addOperation(lifetime: .forTests) {} }
    let (isOver, handlerRuns, otherIsOver) = (Event(), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let one = Task(executorPreference: executor) {
      await withTaskCancellationHandler {
        try? await operations[0].finishedUnlessCancelled()
      } onCancel: {
        handlerRuns.signal()
        #expect(otherIsOver.waitUntilSignalled())
      }
      isOver.happen()
    }
    Task(executorPreference: executor) {
      await operations[1].finished()
      otherIsOver.signal()
    }
    #expect(eventually { operations.allSatisfy { $0.waiterCount == 1 } })
    Thread.detachNewThread { one.cancel() }
    #expect(handlerRuns.waitUntilSignalled())
    queue.isSuspended = false
    #expect(isOver.happens())
    #expect(queue.becomesIdle())
  }

  // MARK: Executors of the package's

  private func executorMayBlock() async -> Bool {
    var mayBlock = false
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      mayBlock = SuspendedTask(continuation).executorMayBlock
      continuation.resume()
    }
    return mayBlock
  }

  /// Keeps its jobs until somebody runs them.
  private final class Mailbox: TaskExecutor {
    private let jobs = Locked<[UnownedJob]>([])

    var isEmpty: Bool { jobs.withLock { $0.isEmpty } }

    func enqueue(_ job: consuming ExecutorJob) {
      let job = UnownedJob(job)
      jobs.withLock { $0.append(job) }
    }

    func runAll() {
      let jobs = jobs.withLock { jobs in
        defer { jobs = [] }
        return jobs
      }
      for job in jobs { job.runSynchronously(on: asUnownedTaskExecutor()) }
    }
  }

  /// Nothing of theirs blocks, so they take no way through the background.
  @Test func onlyTasksOfTheUsersExecutorsGoThroughTheBackground() async throws {
    #expect(await !executorMayBlock())
    #expect(await Task(executorPreference: executor) { await executorMayBlock() }.value)
    #expect(await !Task(executorPreference: queue) { await executorMayBlock() }.value)
    #expect(try await !queue.run(lifetime: .forTests) { await executorMayBlock() })
    #expect(
      try await !queue.run(lifetime: .forTests) {
        await Task.yield()
        return await executorMayBlock()
      })
  }

  @Test func aBodyOfOursMayRunStepsOfAnExecutorOfTheUsers() async throws {
    let mailbox = Mailbox()
    let task = Task(executorPreference: mailbox) { await executorMayBlock() }
    #expect(eventually { !mailbox.isEmpty })
    try await queue.run(lifetime: .forTests) {
      mailbox.runAll()
      #expect(await !executorMayBlock())
    }
    #expect(await task.value)
  }
}

extension GraphRun { fileprivate var waiterCount: Int { audience.withLock { $0.waiters.count } } }
extension OwnedOperation { fileprivate var waiterCount: Int { lock.withLock { extras?.waiters.count ?? 0 } } }
