import Foundation
import Testing

@testable import OwnedOperations

/// What work has captured is released when the work is over. A deinit that then blocks is no body, and nobody has to wait for it: what it
/// waits for may come only from those who see that the work is over.
@Suite struct QueueBlockingDeinitTests {
  enum Kind: CaseIterable {
    case job, jobOfOwner, barrierOfOwner
  }

  enum Awaited: CaseIterable {
    case queue, owner, drain
  }

  enum Successor: CaseIterable {
    case barrier, barrierOfOwner, job
  }

  /// One piece of work, all that its queue has, and so taken alone.
  private struct Work {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
    let owner = TokenOwner()
    let gate = Gate()
    let deinitBegun = DispatchSemaphore(value: 0)
    let deinitMayEnd = DispatchSemaphore(value: 0)

    func add(_ kind: Kind) {
      let probe = DeinitProbe { [deinitBegun, deinitMayEnd] in
        deinitBegun.signal()
        #expect(deinitMayEnd.waitUntilSignalled())
      }
      let gate = gate
      switch kind {
      case .job: queue.async(lifetime: owner.lifetime) { [probe] in withExtendedLifetime(probe) { gate.pass() } }
      case .jobOfOwner: queue.async(owner: owner) { [probe] _ in withExtendedLifetime(probe) { gate.pass() } }
      case .barrierOfOwner: queue.addBarrier(owner: owner) { [probe] _ in withExtendedLifetime(probe) { gate.pass() } }
      }
    }

    /// On a thread, or in a task, of its own. Ends the deinit when the wait is over.
    func wait(for awaited: Awaited) -> DispatchSemaphore {
      let isOver = DispatchSemaphore(value: 0)
      let end: @Sendable () -> Void = { [deinitMayEnd] in
        isOver.signal()
        deinitMayEnd.signal()
      }
      let (queue, lifetime) = (queue, owner.lifetime)
      switch awaited {
      case .queue:
        Thread.detachNewThread {
          queue.waitUntilAllOperationsAreFinished()
          end()
        }
      case .owner:
        Thread.detachNewThread {
          queue.waitUntilFinished(ownedBy: lifetime)
          end()
        }
      case .drain:
        Task.detached {
          await lifetime.drain(on: queue)
          end()
        }
      }
      return isOver
    }

    func add(_ successor: Successor, _ ran: DispatchSemaphore) {
      let deinitMayEnd = deinitMayEnd
      let body: @Sendable () -> Void = {
        ran.signal()
        deinitMayEnd.signal()
      }
      switch successor {
      case .barrier: queue.addBarrierBlock(body)
      case .barrierOfOwner: queue.addBarrier(lifetime: .process, body)
      case .job:
        queue.addBarrierBlock {}
        queue.async(lifetime: .process, execute: body)
      }
    }
  }

  @Test(arguments: Kind.allCases, Awaited.allCases) func aWaitThatHasBegunEnds(_ kind: Kind, _ awaited: Awaited) {
    let work = Work()
    work.add(kind)
    #expect(work.gate.hasBegun())
    let isOver = work.wait(for: awaited)
    #expect(eventually { work.queue.snapshot.waits == 1 })
    work.gate.open()
    #expect(work.deinitBegun.waitUntilSignalled())
    #expect(isOver.waitUntilSignalled())
  }

  @Test(arguments: Kind.allCases, Awaited.allCases) func aWaitThatBeginsLaterEnds(_ kind: Kind, _ awaited: Awaited) {
    let work = Work()
    work.add(kind)
    #expect(work.gate.hasBegun())
    work.gate.open()
    #expect(work.deinitBegun.waitUntilSignalled())
    #expect(work.wait(for: awaited).waitUntilSignalled())
  }

  @Test(arguments: Kind.allCases, Successor.allCases) func whatABarrierHoldsUpBegins(_ kind: Kind, _ successor: Successor) {
    let work = Work()
    let ran = DispatchSemaphore(value: 0)
    work.add(kind)
    #expect(work.gate.hasBegun())
    work.add(successor, ran)
    work.gate.open()
    #expect(work.deinitBegun.waitUntilSignalled())
    #expect(ran.waitUntilSignalled())
  }

  @Test(arguments: Kind.allCases, Successor.allCases) func whatABarrierHoldsUpLaterBegins(_ kind: Kind, _ successor: Successor) {
    let work = Work()
    let ran = DispatchSemaphore(value: 0)
    work.add(kind)
    #expect(work.gate.hasBegun())
    work.gate.open()
    #expect(work.deinitBegun.waitUntilSignalled())
    work.add(successor, ran)
    #expect(ran.waitUntilSignalled())
  }

  /// Its wait is over, and the only permit is with work that is over, too.
  @Test func aBodyThatHasWaitedGoesOn() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let (first, second) = (OwnerLifetime(), OwnerLifetime())
    let (gate, deinitBegun, deinitMayEnd) = (Gate(), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let hasGoneOn = DispatchSemaphore(value: 0)
    queue.async(lifetime: .process) {
      queue.async(lifetime: first) {}
      do {
        let probe = DeinitProbe {
          deinitBegun.signal()
          #expect(deinitMayEnd.waitUntilSignalled())
        }
        queue.async(lifetime: second) { [probe] in withExtendedLifetime(probe) { gate.pass() } }
      }
      queue.waitUntilFinished(ownedBy: first)
      hasGoneOn.signal()
      deinitMayEnd.signal()
    }
    #expect(gate.hasBegun())
    // Who waits for its return may have been found blocked, and is looked at as long as it is.
    let returns = eventually { queue.shows { $0.somebodyReturns && (!$0.isMonitored || $0.blockedWorkers > 0) } }
    #expect(returns)
    gate.open()
    #expect(deinitBegun.waitUntilSignalled())
    #expect(hasGoneOn.waitUntilSignalled())  // by itself: a wait of ours would have looks made
    #expect(queue.becomesIdle())
  }

  private final class Leaving: OwnedOperation, @unchecked Sendable {  // constants
    private let body, whenGone: @Sendable () -> Void
    init(_ lifetime: OwnerLifetime, _ body: @escaping @Sendable () -> Void, whenGone: @escaping @Sendable () -> Void) {
      (self.body, self.whenGone) = (body, whenGone)
      super.init(lifetime: lifetime)
    }
    override func perform() { body() }
    deinit { whenGone() }
  }

  /// Only one of an owner's jobs may run at a time, and the one that has run is over; or the operation, which has finished.
  @Test(arguments: [false, true], [false, true]) func theOwnersNextJobBegins(afterOperation: Bool, isAddedLater: Bool) {
    let queue = OwnerScopedQueue()
    queue.maxConcurrentOperationCountPerOwner = 1
    let lifetime = OwnerLifetime()
    let (gate, deinitBegun, deinitMayEnd) = (Gate(), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let leave: @Sendable () -> Void = {
      deinitBegun.signal()
      #expect(deinitMayEnd.waitUntilSignalled())
    }
    if afterOperation {
      queue.addOperation(Leaving(lifetime, { gate.pass() }, whenGone: leave))
    } else {
      let probe = DeinitProbe(leave)
      queue.async(lifetime: lifetime) { [probe] in withExtendedLifetime(probe) { gate.pass() } }
    }
    #expect(gate.hasBegun())
    if !isAddedLater { queue.async(lifetime: lifetime) { deinitMayEnd.signal() } }
    #expect(eventually { !queue.snapshot.isMonitored })
    gate.open()
    #expect(deinitBegun.waitUntilSignalled())
    if isAddedLater { queue.async(lifetime: lifetime) { deinitMayEnd.signal() } }
    #expect(eventually { queue.snapshot.unfinished == 0 })
  }

  // MARK: Who looks

  /// GCD's pool is in use by others. Looks have a thread nevertheless.
  @Test func looksAreMadeWhileThePoolIsBlocked() {
    let mayGo = DispatchSemaphore(value: 0)
    for _ in 0..<300 { DispatchQueue.global(qos: .userInitiated).async { mayGo.wait() } }
    defer { for _ in 0..<300 { mayGo.signal() } }
    let work = Work()
    work.add(.job)
    #expect(work.gate.hasBegun())
    work.gate.open()
    #expect(work.deinitBegun.waitUntilSignalled())
    #expect(work.wait(for: .queue).wait(timeout: .now() + 30) == .success)  // a tenth of the time until the pool has so many threads
  }

  /// A queue whose facade is there hands over what it has when it goes, and a hook may keep it from that. No look waits for it meanwhile.
  @Test func aQueueThatIsGoingHoldsUpNoLooksAtOthers() throws {
    let (begun, mayEnd) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let reference = Mutexed<QueueReference?>(nil)
    Thread.detachNewThread {
      let queue = OwnerScopedQueue()
      _ = queue.operationQueue
      reference.value = queue.core.reference
      onDeinit(of: queue) { _, _ in
        begun.signal()
        #expect(mayEnd.waitUntilSignalled())
      }
    }
    #expect(begun.waitUntilSignalled())
    let going = try #require(reference.value)
    #expect(!going.letLook { _ in })
    mayEnd.signal()
    #expect(eventually { going.letLook { _ in } })
  }

  /// Who asks again and again waits, too.
  @Test(arguments: Kind.allCases, [false, true]) func whoAsksHowMuchIsLeftSeesTheEnd(_ kind: Kind, ofOwner: Bool) {
    let work = Work()
    work.add(kind)
    #expect(work.gate.hasBegun())
    work.gate.open()
    #expect(work.deinitBegun.waitUntilSignalled())
    #expect(eventually { (ofOwner ? work.queue.operationCount(ownedBy: work.owner.lifetime) : work.queue.operationCount) == 0 })
    work.deinitMayEnd.signal()
  }

  /// When the end has been counted there is nothing more to look for, however long the deinit blocks.
  @Test func noLooksAreMadeAfterTheEnd() {
    let work = Work()
    work.add(.job)
    #expect(work.gate.hasBegun())
    work.gate.open()
    #expect(work.deinitBegun.waitUntilSignalled())
    #expect(work.queue.becomesIdle())
    #expect(eventually { !work.queue.snapshot.isMonitored })
    work.queue.lookAtWorkers(times: 3)
    #expect(work.queue.snapshot.blockedWorkers == 1)
    #expect(!work.queue.snapshot.isMonitored)
    work.deinitMayEnd.signal()
    #expect(eventually { work.queue.snapshot.activeWorkers == 0 })
    #expect(work.queue.snapshot.blockedWorkers == 0)
  }

  // MARK: The owner of what is over

  /// The worker that is with what a job leaves has no body of the owner's any more: the owner goes, and what waits for that is decided.
  @Test(arguments: [false, true]) func workHeldBackIsDecided(isNested: Bool) {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
    let owner = Mutexed<TokenOwner?>(TokenOwner())
    let (gate, deinitBegun, deinitMayEnd) = (Gate(), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let add: @Sendable () -> Void = {
      guard let owner = owner.value else { return }
      let probe = DeinitProbe {
        deinitBegun.signal()
        #expect(deinitMayEnd.waitUntilSignalled())
      }
      queue.async(owner: owner) { [probe] _ in withExtendedLifetime(probe) { gate.pass() } }
    }
    if isNested { queue.async(lifetime: .process, execute: add) } else { add() }
    #expect(gate.hasBegun())
    queue.isSuspended = true
    do {
      guard let last = owner.value else { return }
      queue.async(owner: last) { _ in }
    }
    owner.value = nil
    queue.isSuspended = false
    #expect(eventually { queue.holdsWorkBack })
    gate.open()
    #expect(deinitBegun.waitUntilSignalled())
    #expect(queue.becomesIdle())
    #expect(queue.statistics.skippedForEndedOwners == 1)
    deinitMayEnd.signal()
  }

  @Test func whatAJobLeavesMayWaitForItsOwner() {
    let queue = OwnerScopedQueue()
    let owner = Mutexed<TokenOwner?>(TokenOwner())
    guard let gone = owner.value.map({ goodbye(of: $0) }) else { return }
    let (gate, done) = (Gate(), DispatchSemaphore(value: 0))
    do {
      guard let held = owner.value else { return }
      let probe = DeinitProbe {
        #expect(gone.waitUntilSignalled())
        done.signal()
      }
      queue.async(owner: held) { [probe] _ in
        withExtendedLifetime(probe) { gate.pass() }
        owner.value = nil
      }
    }
    gate.open()  // of the probe only the job has a reference by now
    #expect(done.waitUntilSignalled())
  }

  private final class Waiting: OperationOwner, Sendable {
    let lifetimeToken = OwnerLifetime.Token()
    private let whenGone: @Sendable () -> Void
    init(_ whenGone: @escaping @Sendable () -> Void) { self.whenGone = whenGone }
    deinit { whenGone() }
  }

  /// The worker has the last reference to the owner, and a job of the owner's in hand, that does not begin for the owner's end.
  @Test(arguments: [false, true]) func anOwnerMayWaitForWhatItsJobThatDidNotBeginHasCaptured(isEnded: Bool) {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let (captureWent, ownerWent) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let hasEnded = DispatchSemaphore(value: 0)
    let owner = Mutexed<Waiting?>(
      Waiting {
        #expect(captureWent.waitUntilSignalled())
        ownerWent.signal()
      })
    let gate = Gate()
    let lifetime: OwnerLifetime
    do {
      guard let held = owner.value else { return }
      lifetime = held.lifetime
      LifetimeReaper.hold(lifetime)  // it would take the job away from the worker
      lifetime.onEnd { _ in hasEnded.signal() }
      let first = DeinitProbe {
        owner.value = nil
        if isEnded { lifetime.end() }
      }
      queue.async(owner: held) { [first] held in
        withExtendedLifetime(first) { gate.pass() }
        let second = DeinitProbe { captureWent.signal() }
        // Mostly it doesn't begin, unless it takes the worker milliseconds to let go of the owner.
        queue.async(owner: held) { [second] _ in withExtendedLifetime(second) {} }
      }
    }
    #expect(gate.hasBegun())
    gate.open()
    #expect(ownerWent.waitUntilSignalled())
    // Not before the lifetime has been handed to the reaper.
    #expect(hasEnded.waitUntilSignalled())
    LifetimeReaper.resume(lifetime)
    #expect(queue.becomesIdle())
  }

  @Test func whatAJobLeavesMayWaitForItsOwnerThatIsDroppedLater() {
    let queue = OwnerScopedQueue()
    let owner = Mutexed<TokenOwner?>(TokenOwner())
    guard let gone = owner.value.map({ goodbye(of: $0) }) else { return }
    let (gate, begun, done) = (Gate(), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    do {
      guard let held = owner.value else { return }
      let probe = DeinitProbe {
        begun.signal()
        #expect(gone.waitUntilSignalled())
        done.signal()
      }
      queue.async(owner: held) { [probe] _ in withExtendedLifetime(probe) { gate.pass() } }
    }
    gate.open()
    #expect(begun.waitUntilSignalled())
    owner.value = nil
    #expect(done.waitUntilSignalled())
  }
}
