import Foundation
import Testing

@testable import OwnedOperations

/// Deinits, `didCancel`, observers and hooks of the user's that wait hold up neither `cancel()` nor the cleaning up for others.
@Suite struct BackgroundReleaseTests {
  /// What waits until the test lets it go on.
  private final class Barrier: Sendable {
    private let begun = DispatchSemaphore(value: 0)
    private let opened = DispatchSemaphore(value: 0)

    func pass() {
      begun.signal()
      opened.wait()
      opened.signal()
    }
    func isReached(by count: Int) -> Bool { (0..<count).allSatisfy { _ in begun.waitUntilSignalled() } }
    func open() { opened.signal() }
  }

  private enum Kind: CaseIterable, Sendable {
    case block, result, asyncResult, ownerBlock

    /// In no queue, or in the queue given.
    func make(_ lifetime: OwnerLifetime, _ queue: OwnerScopedQueue?, _ captured: DeinitProbe) -> OwnedOperation {
      let operation: OwnedOperation =
        switch self {
        case .block: OwnedBlockOperation(lifetime: lifetime) { captured.mustNotRun() }
        case .result: OwnedResultOperation<Void>(lifetime: lifetime) { () throws -> Void in captured.mustNotRun() }
        case .asyncResult: OwnedResultOperation<Void>(lifetime: lifetime) { () async throws -> Void in captured.mustNotRun() }
        case .ownerBlock: OwnerBlockOperation(Self.object, lifetime) { _ in captured.mustNotRun() }
        }
      queue?.addOperation(operation)
      return operation
    }

    private static let object = TokenOwner()
  }

  @Test(arguments: Kind.allCases, [false, true]) private func cancelDoesNotWaitForDeinits(kind: Kind, isQueued: Bool) {
    let barrier = Barrier()
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let operation = kind.make(.forTests, isQueued ? queue : nil, DeinitProbe { barrier.pass() })
    #expect(returns { operation.cancel() })
    #expect(operation.isFinished == isQueued)
    #expect(barrier.isReached(by: 1))
    barrier.open()
    DeferredReleases.waitUntilIdle()
  }

  /// The captured session ends with its queue, and is captured by work of that queue.
  @Test func deinitThatWaitsForTheQueueOfTheCancelledWorkReturns() {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let gone = DispatchSemaphore(value: 0)
    let operation = OwnedBlockOperation(lifetime: .forTests) { [deinitProbe = teardown(of: queue, gone)] in deinitProbe.mustNotRun() }
    queue.addOperation(operation)
    #expect(returns { operation.cancel() })
    #expect(gone.waitUntilSignalled())
  }

  private func teardown(of queue: OwnerScopedQueue, _ gone: DispatchSemaphore) -> DeinitProbe {
    DeinitProbe {
      queue.cancelAllOperations()
      queue.waitUntilAllOperationsAreFinished()
      gone.signal()
    }
  }

  @Test func noDeinitRunsOnTheThreadThatCancels() {
    let cancelling = pthread_self()
    let here = Counter()
    for _ in 0..<500 {
      for kind in Kind.allCases {
        kind.make(.forTests, nil, DeinitProbe { if pthread_equal(pthread_self(), cancelling) != 0 { here.add() } }).cancel()
      }
    }
    DeferredReleases.waitUntilIdle()
    #expect(here.value == 0)
  }

  @Test func cleaningUpGoesOnWhileDeinitsOfOtherOwnersBlock() {
    let barrier = Barrier()
    let count = 20
    let lifetime = OwnerLifetime()
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let threads = DispatchQueue(label: "suspended")
    threads.suspend()
    var operations: [OwnedOperation] = []
    for _ in 0..<count {
      operations.append(Kind.block.make(lifetime, queue, DeinitProbe { barrier.pass() }))
      let (job, block) = (DeinitProbe { barrier.pass() }, DeinitProbe { barrier.pass() })
      queue.async(lifetime: lifetime) { job.mustNotRun() }
      threads.async(lifetime: lifetime) { block.mustNotRun() }
    }
    lifetime.end()
    expectAnotherOwnerIsCleanedUp(on: queue)
    #expect(barrier.isReached(by: 3))
    barrier.open()
    LifetimeReaper.waitUntilIdle()
    #expect(operations.allSatisfy { $0.isFinished })
    threads.resume()
  }

  /// Ends an owner with an operation and a job that wait in a queue, and expects both to be let go of: whoever blocks just now holds up
  /// nobody.
  /// - Parameter suspended: a queue in which nothing starts; a new one if there is none at hand.
  private func expectAnotherOwnerIsCleanedUp(on suspended: OwnerScopedQueue? = nil) {
    let queue = suspended ?? OwnerScopedQueue()
    queue.isSuspended = true
    let lifetime = OwnerLifetime()
    let gone = DispatchSemaphore(value: 0)
    _ = Kind.block.make(lifetime, queue, DeinitProbe { gone.signal() })
    do {
      let job = DeinitProbe { gone.signal() }
      queue.async(lifetime: lifetime) { job.mustNotRun() }
    }
    lifetime.end()
    #expect(gone.waitUntilSignalled() && gone.waitUntilSignalled())
  }

  private final class Cancellable: OwnedOperation, @unchecked Sendable {
    private let body: @Sendable () -> Void

    init(_ lifetime: OwnerLifetime, _ body: @escaping @Sendable () -> Void) {
      self.body = body
      super.init(lifetime: lifetime)
    }

    override var isAsynchronous: Bool { true }
    override func didCancel(_ reason: CancellationReason) { body() }
  }

  @Test(arguments: [false, true]) func didCancelThatBlocksHoldsUpNoOtherOwner(isExecuting: Bool) {
    let barrier = Barrier()
    let count = 80
    let lifetime = OwnerLifetime()
    let operations = (0..<count).map { _ in Cancellable(lifetime) { barrier.pass() } }
    if isExecuting { for operation in operations { operation.start() } } else { for operation in operations { _ = operation.isReady } }
    lifetime.end()
    #expect(barrier.isReached(by: count))
    let cancelled = DispatchSemaphore(value: 0)
    let other = OwnerLifetime()
    let last = Cancellable(other) { cancelled.signal() }
    last.start()
    other.end()
    expectAnotherOwnerIsCleanedUp()
    #expect(cancelled.waitUntilSignalled())
    barrier.open()
    for operation in operations + [last] { operation.finish() }
    LifetimeReaper.waitUntilIdle()
  }

  @Test(arguments: [OperationObservation.Options.new, .prior]) func observerThatBlocksHoldsUpNoOtherOwner(
    _ options: OperationObservation.Options
  ) {
    let barrier = Barrier()
    let lifetime = OwnerLifetime()
    let operation = OwnedBlockOperation(lifetime: lifetime) {}
    let observation = operation.observe(\.isFinished, options: options) { _, _ in barrier.pass() }
    lifetime.end()
    #expect(barrier.isReached(by: 1))
    expectAnotherOwnerIsCleanedUp()
    barrier.open()
    LifetimeReaper.waitUntilIdle()
    #expect(operation.isFinished)
    withExtendedLifetime(observation) {}
  }

  @Test func observerThatBlocksInATimeoutHoldsUpNoOtherTimeout() {
    let barrier = Barrier()
    let slow = Cancellable(.forTests) {}
    let observation = slow.observe(\.isCancelled, options: .prior) { _, change in if change.isPrior { barrier.pass() } }
    slow.timeout = .milliseconds(1)
    slow.start()
    #expect(barrier.isReached(by: 1))
    let cancelled = DispatchSemaphore(value: 0)
    let other = Cancellable(.forTests) { cancelled.signal() }
    other.timeout = .milliseconds(1)
    other.start()
    #expect(cancelled.waitUntilSignalled())
    barrier.open()
    slow.waitUntilFinished()
    withExtendedLifetime(observation) {}
  }

  /// Whoever cancels the last node may be anybody: a thread that others depend on, or the reaper.
  @Test(arguments: [false, true]) func whoCancelsTheLastNodeDoesNotWaitForTheDeinitsOfWhatTheyCaptured(byItsOwner: Bool) throws {
    let (queue, barrier, lifetime) = (OwnerScopedQueue(), Barrier(), OwnerLifetime())
    queue.isSuspended = true
    let run = try {
      let graph = OperationGraph(lifetime: lifetime)
      let probe = DeinitProbe { barrier.pass() }
      graph.node { withExtendedLifetime(probe) {} }
      return try graph.run(on: queue)
    }()
    if byItsOwner {
      lifetime.end()
      #expect(eventually { run.isFinished })
    } else {
      #expect(returns { run.cancel() })
    }
    #expect(run.isFinished)
    #expect(barrier.isReached(by: 1))
    barrier.open()
    LifetimeReaper.waitUntilIdle()
  }

  /// The lifetime of an object that nobody tells of: whoever asks finds out, and the hooks run in the background.
  @Test func hookOfALifetimeThatIsFoundDeadMayBlock() {
    let barrier = Barrier()
    let registry = DeinitRegistry(mechanism: .weakReference)
    var object: TokenlessOwner? = TokenlessOwner()
    let lifetime = OwnerLifetime.of(object!, in: registry)
    lifetime.onEnd { _ in barrier.pass() }
    object = nil
    #expect(!lifetime.isAlive)
    #expect(barrier.isReached(by: 1))
    expectAnotherOwnerIsCleanedUp()
    barrier.open()
    LifetimeReaper.waitUntilIdle()
  }

  private final class TokenlessOwner: Sendable {}

  /// The reaper may be the last to let go of an operation, and so of what its subclass stores.
  @Test func theReaperDoesNotWaitForTheDeinitsOfOperations() {
    final class Storing: OwnedOperation, @unchecked Sendable {
      let stored: DeinitProbe
      init(_ lifetime: OwnerLifetime, _ stored: DeinitProbe) {
        self.stored = stored
        super.init(lifetime: lifetime)
      }
    }
    let barrier = Barrier()
    let lifetime = OwnerLifetime()
    let kept = Mutexed<Storing?>(nil)
    // The reaper has both members. At the first it lets go of the test's reference to the second, and has the last.
    let member = Told(lifetime) { kept.value = nil }
    #expect(lifetime.join(member))
    kept.value = Storing(lifetime, DeinitProbe { barrier.pass() })
    lifetime.end()
    #expect(barrier.isReached(by: 1))
    expectAnotherOwnerIsCleanedUp()
    barrier.open()
    LifetimeReaper.waitUntilIdle()
  }

  /// Ends come faster than they are told, so that many are gathered. Who is told together with one that blocks waits with it, others don't.
  @Test func endsAreToldWhileOthersBlock() {
    let barrier = Barrier()
    let (blocked, other) = (Audience { barrier.pass() }, Audience {})
    for index in 0..<1_000 {
      let lifetime = OwnerLifetime()
      let member = ToldWithOthers(lifetime, index % 3 == 0 ? blocked : other)
      #expect(lifetime.join(member))
      lifetime.end()
      other.members.withLock { $0.append(member) }  // a lifetime keeps none
    }
    #expect(eventually { other.told.value == 666 })
    #expect(barrier.isReached(by: 1))
    barrier.open()
    LifetimeReaper.waitUntilIdle()
    #expect(blocked.told.value == 334)
    other.members.withLock { $0 = [] }
  }

  @Test func ownersWithLittleWorkDoNotWaitBehindOneWithMuch() {
    let many = OwnerLifetime()
    let (gate, hasBegun, told) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), Counter())
    // Each blocks, so that it takes seconds to come to the last.
    let members = (0..<1_000).map { _ in
      Told(many) {
        told.add()
        hasBegun.signal()
        gate.wait()
      }
    }
    for member in members { #expect(many.join(member)) }
    many.end()
    #expect(hasBegun.waitUntilSignalled())
    let toldBefore = Locked<[Int]>([])
    let audiences = (0..<2).map { _ in Audience { toldBefore.withLock { $0.append(told.value) } } }
    for index in 0..<64 {
      let lifetime = OwnerLifetime()
      let member = ToldWithOthers(lifetime, audiences[index % 2])
      #expect(lifetime.join(member))
      lifetime.end()
      audiences[0].members.withLock { $0.append(member) }  // a lifetime keeps none
    }
    #expect(eventually { audiences.allSatisfy { $0.told.value == 32 } })
    for _ in members { gate.signal() }
    LifetimeReaper.waitUntilIdle()
    #expect(told.value == 1_000)
    #expect(toldBefore.withLock { $0.allSatisfy { $0 < 1_000 } })
    audiences[0].members.withLock { $0 = [] }
  }

  private final class Audience: Sendable {
    let told = Counter()
    let members = Locked<[ToldWithOthers]>([])
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  }

  private final class ToldWithOthers: MemberToldWithOthers {
    static let memberKind: MemberKind = MemberKind(of: ToldWithOthers.self)
    nonisolated(unsafe) var memberIndex = MemberList.notListed  // guarded by the lifetime's lock
    private let lifetime: OwnerLifetime
    private let audience: Audience

    init(_ lifetime: OwnerLifetime, _ audience: Audience) {
      self.lifetime = lifetime
      self.audience = audience
    }

    var companions: ObjectIdentifier { ObjectIdentifier(audience) }
    func lifetimeDidEnd() { Self.lifetimesDidEnd(of: [self]) }

    static func lifetimeDidEndAtOnce(of member: Retained<ToldWithOthers>) -> Bool { false }

    static func lifetimesDidEnd(of members: consuming [ToldWithOthers]) {
      members.first?.audience.body()
      for member in members { member.audience.told.add() }
    }
  }

  private final class Told: LifetimeMember {
    static let memberKind: MemberKind = MemberKind(of: Told.self)
    nonisolated(unsafe) var memberIndex = MemberList.notListed  // guarded by the lifetime's lock
    private let lifetime: OwnerLifetime
    private let body: @Sendable () -> Void

    init(_ lifetime: OwnerLifetime, _ body: @escaping @Sendable () -> Void) {
      self.lifetime = lifetime
      self.body = body
    }

    deinit { lifetime.leave(self) }
    func lifetimeDidEnd() { body() }
  }
}
