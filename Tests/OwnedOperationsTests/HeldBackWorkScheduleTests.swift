import Foundation
import Testing

@testable import OwnedOperations

private final class Host: OperationOwner, Sendable {
  let lifetimeToken: OwnerLifetime.Token
  let deinitProbe: @Sendable () -> Void
  init(_ token: OwnerLifetime.Token = OwnerLifetime.Token(), _ deinitProbe: @escaping @Sendable () -> Void = {}) {
    lifetimeToken = token
    self.deinitProbe = deinitProbe
  }
  deinit { deinitProbe() }
}

private final class Box: Sendable {
  let lock = Lock()
  nonisolated(unsafe) var kept: Host?  // guarded by `lock`, but for looks of the test's own
  func keep(_ host: Host) { lock.withLock { kept = host } }

  static func holding(_ host: Host) -> Box {
    let box = Box()
    box.keep(host)
    return box
  }

  func drop() {
    var former: Host?
    lock.withLock { swap(&former, &kept) }
  }
}

private func blockOn(_ operation: OwnedOperation) { operation.waitUntilFinished() }

/// Schedules in which work is held back because only bodies hold its owner.
@Suite(.serialized) struct HeldBackWorkScheduleTests {
  /// Keeps what is released in the background waiting, for longer than the test takes.
  private final class Stopper: Sendable {
    private let gate: Gate
    init(_ gate: Gate) { self.gate = gate }
    deinit { gate.pass() }
  }

  /// A main actor's, or another actor's: the turn that finds that nobody else holds it, inside of a body that lets go of it last.
  @Test func anOwnerThatIsHeldBackGoesWhereItsTurnsAre() throws {
    let thread = Journal<Bool>()
    let gate = Gate()
    defer { gate.open() }
    let here = pthread_self()
    var host: Host? = Host { thread.write(pthread_equal(pthread_self(), here) != 0) }
    let lifetime = try #require(host?.lifetimeToken.lifetime)
    let hold = OwnerHold.of(try #require(host), lifetime)
    guard case .begins(let body) = hold.begin() else {
      Issue.record("nobody else holds it")
      return
    }
    let block = PendingBlock(lifetime, hold, at: .actor(WeakActor(Main.shared))) { _ in }
    host = nil
    DeferredReleases.add(Stopper(gate))
    #expect(gate.hasBegun())
    block.run()
    hold.end(body)
    #expect(thread.entries == [true])
  }

  @globalActor private actor Main { static let shared = Main() }

  /// The last body lets go while a block looks who holds the owner. So the block's look is the last, and what the deinit waits for is the
  /// block's own.
  @Test func theDeinitOfAnOwnerMayWaitForTheBlockThatIsHeldBack() throws {
    let group = DispatchGroup()
    let done = DispatchSemaphore(value: 0)
    var host: Host? = Host {
      group.wait()
      done.signal()
    }
    let lifetime = try #require(host?.lifetimeToken.lifetime)
    let hold = OwnerHold.of(try #require(host), lifetime)
    guard case .begins(let body) = hold.begin() else {
      Issue.record("nobody else holds it")
      return
    }
    let queue = DispatchQueue(label: "held back")
    /// The block is the only one to have what is in the group.
    func makeBlock() -> PendingBlock {
      let captured = GroupedBody<@Sendable () -> Void>({}, in: group)
      let place = DispatchPlace(queue: queue, qos: .unspecified, flags: [])
      return PendingBlock(lifetime, hold, at: .queue(place)) { _ in withExtendedLifetime(captured) {} }
    }
    let block = makeBlock()
    host = nil
    // The beginning of another block, which has just looked.
    var other: Retained<AnyObject>?
    guard case .heldBack = hold.begin(&other) else {
      Issue.record("somebody else holds it")
      return
    }
    queue.async { block.run() }
    queue.sync {}
    hold.end(body)
    let last = other
    queue.async { if let last { hold.end(last) } }
    #expect(done.waitUntilSignalled())
  }

  /// A lifetime may end between the look at it and the block's joining it.
  @Test func whatABlockHasCapturedGoesInTheBackgroundIfTheLifetimeHasEnded() {
    let thread = Journal<Bool>()
    let here = pthread_self()
    let lifetime = OwnerLifetime()
    lifetime.end()
    /// The block is the only one to have the host.
    func block() -> PendingBlock {
      let host = Host { thread.write(pthread_equal(pthread_self(), here) != 0) }
      return PendingBlock(lifetime) { withExtendedLifetime(host) {} }
    }
    DispatchQueue(label: "ended").submit(block(), qos: .unspecified, flags: [])
    #expect(eventually { thread.entries == [false] })
  }

  @Test(arguments: [true, false], [true, false]) func aBodyMayWaitForAnOperationOfItsOwner(inDispatchQueue: Bool, addsFirst: Bool) {
    let queue = OwnerScopedQueue()
    let gate = Gate()
    let done = DispatchSemaphore(value: 0)
    do {
      let host = Host()
      let body: @Sendable (Host) -> Void = { host in
        let early = addsFirst ? queue.addOperation(owner: host) { _ in } : nil
        gate.pass()
        let next = early ?? queue.addOperation(owner: host) { _ in }
        next.waitUntilFinished()
        done.signal()
      }
      if inDispatchQueue { DispatchQueue.global().async(owner: host, execute: body) } else { queue.addOperation(owner: host, body) }
      #expect(gate.hasBegun())
    }
    gate.open()
    #expect(done.waitUntilSignalled())
  }

  /// The owner is one that its lifetime is bound to, from an earlier job, or not yet.
  @Test(arguments: [true, false], [true, false]) func anAsynchronousBodyMayWaitForAnOperationOfItsOwner(isBound: Bool, blocks: Bool) {
    let queue = OwnerScopedQueue()
    let begun = DispatchSemaphore(value: 0)
    let open = Event()
    let done = DispatchSemaphore(value: 0)
    let box = Box.holding(Host())
    if isBound { runOnce(box.kept!, on: queue) }
    Task {
      try? await queue.run(weakTarget(box)) { host in
        begun.signal()
        while !open.isPast { await Task.yield() }
        let operation = queue.addOperation(owner: host) { _ in }
        if blocks { blockOn(operation) } else { await operation.finished() }
        done.signal()
      }
    }
    #expect(begun.waitUntilSignalled())
    box.drop()
    open.happen()
    #expect(done.waitUntilSignalled())
  }

  /// Binds the owner's lifetime to it.
  private func runOnce(_ host: Host, on queue: OwnerScopedQueue) {
    let once = DispatchSemaphore(value: 0)
    queue.async(owner: host) { _ in once.signal() }
    #expect(once.waitUntilSignalled())
  }

  private final class HeldBackProbe: HeldBackWork {
    let news = Counter()
    func ownerWasDecided() { news.add() }
  }

  /// No event announces a new reference. What is added has held-back work looked at; its timer comes later.
  @Test(arguments: [true, false]) func heldBackWorkIsLookedAtWhenAnOperationOfItsOwnerIsAdded(isTurn: Bool) {
    let queue = OwnerScopedQueue()
    let box = Box.holding(Host())
    let lifetime = box.kept!.lifetimeToken.lifetime
    let hold = OwnerHold.of(box.kept!)
    let (begun, handsOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let (handedOn, mayEnd) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let other = Box()
    queue.async(owner: box.kept!) { host in
      begun.signal()
      handsOn.wait()
      other.keep(host)
      handedOn.signal()
      mayEnd.wait()
    }
    #expect(begun.waitUntilSignalled())
    box.drop()
    let heldBack = HeldBackProbe()
    hold.keep(heldBack)
    #expect(heldBack.news.value == 0)
    handsOn.signal()
    #expect(handedOn.waitUntilSignalled())
    if isTurn { queue.addTurn(lifetime: lifetime, priority: .normal).giveUp() } else { queue.addOperation(lifetime: lifetime) {} }
    #expect(heldBack.news.value == 1)
    mayEnd.signal()
    #expect(queue.becomesIdle())
  }

  @Test func aBodyMayWaitForWorkBehindABarrierBehindHeldBackWork() {
    let first = OwnerScopedQueue()
    let second = OwnerScopedQueue()
    let gate = Gate()
    let done = DispatchSemaphore(value: 0)
    let other = OwnerLifetime()
    second.isSuspended = true
    let box = Box.holding(Host())
    second.async(owner: box.kept!) { _ in }
    second.addBarrierBlock {}
    let last = second.addOperation(lifetime: other) {}
    first.async(owner: box.kept!) { _ in
      gate.pass()
      last.waitUntilFinished()
      done.signal()
    }
    #expect(gate.hasBegun())
    box.drop()
    second.isSuspended = false
    gate.open()
    #expect(done.waitUntilSignalled())
  }

  private final class EndsMeanwhile: OwnedOperation, @unchecked Sendable {
    let object = Host()
    override var holdsOwner: Bool { true }
    override func beginForOwner() -> OwnerHold? {
      lifetime.end()
      LifetimeReaper.waitUntilIdle()
      return OwnerHold.of(object)
    }
  }

  @Test func anOperationThatIsHeldBackWhenItsOwnerEndsIsCountedOnce() {
    let queue = OwnerScopedQueue()
    let lifetime = OwnerLifetime()
    let operation = EndsMeanwhile(lifetime: lifetime)
    queue.addOperation(operation)
    operation.waitUntilFinished()
    let done = DispatchSemaphore(value: 0)
    Thread.detachNewThread {
      queue.waitUntilAllOperationsAreFinished()
      done.signal()
    }
    #expect(done.waitUntilSignalled())
    #expect(queue.snapshot.unfinished == 0)
    #expect(queue.statistics.cancelled == 1)
    #expect(queue.statistics.skippedForEndedOwners <= 1)
  }

  @Test func theDeinitOfAnOwnerDoesNotRunWithAnotherItemInHand() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let gate = Gate()
    let other = OwnerLifetime()
    let began = DispatchSemaphore(value: 0)
    let release = DispatchSemaphore(value: 0)
    let box = Box()
    box.keep(
      Host(OwnerLifetime.Token()) {
        began.signal()
        release.wait()
      })
    queue.async(lifetime: other) { gate.pass() }
    #expect(gate.hasBegun())
    for _ in 0..<400 { queue.async(lifetime: other) {} }
    do {
      let host = box.kept!
      for _ in 0..<32 {
        queue.async(owner: host) { _ in box.drop() }
        queue.async(lifetime: host.lifetime) {}
      }
    }
    let third = OwnerLifetime()
    let ran = DispatchSemaphore(value: 0)
    queue.async(lifetime: third) { ran.signal() }
    gate.open()
    #expect(began.waitUntilSignalled())
    #expect(ran.waitUntilSignalled())
    release.signal()
    #expect(queue.becomesIdle())
  }

  @Test(arguments: [false, true]) func aTaskThatOutlivesItsBodyIsNotCountedOutAgain(isControl: Bool) {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
    let box = Box.holding(Host())
    let lifetime = box.kept!.lifetime
    queue.async(owner: box.kept!) { _ in }
    let gates = [Gate(), Gate()]
    // Keeps `finished` waiting.
    queue.async(owner: box.kept!) { _ in gates[0].pass() }
    #expect(gates[0].hasBegun())
    let over = DispatchSemaphore(value: 0)
    Task {
      try? await queue.run(weakTarget(box)) { _ in
        if isControl {
          Task.detached { await queue.finished(ownedBy: lifetime) }
        } else {
          Task { await queue.finished(ownedBy: lifetime) }
        }
      }
      over.signal()
    }
    #expect(over.waitUntilSignalled())
    #expect(eventually { queue.snapshot.waits > 0 })
    queue.async(owner: box.kept!) { _ in gates[1].pass() }
    #expect(gates[1].hasBegun())
    let counter = Counter()
    for _ in 0..<20 { queue.async(owner: box.kept!) { _ in counter.add() } }
    box.drop()
    gates[0].open()
    #expect(eventually { queue.holdsWorkBack })
    #expect(counter.value == 0)
    gates[1].open()
    #expect(queue.becomesIdle())
  }

  /// The main queue may be another object each time.
  @Test(arguments: [false, true]) func blocksThatWereHeldBackStayInOrder(onMain: Bool) {
    let own = DispatchQueue(label: "serial")
    var serial: DispatchQueue { onMain ? .main : own }
    let (body, head, middle) = (Gate(), Gate(), Gate())
    let (handed, done) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let order = Journal<Int>()
    let (box, keeper) = (Box(), Box())
    box.keep(Host())
    let hasHanded = Gate()
    DispatchQueue.global().async(owner: box.kept!) { host in
      body.pass()
      keeper.keep(host)
      handed.signal()
      hasHanded.pass()
    }
    #expect(body.hasBegun())
    serial.async { head.pass() }
    serial.async(owner: box.kept!) { _ in
      order.write(1)
      done.signal()
    }
    serial.async { middle.pass() }
    serial.async(owner: box.kept!) { _ in
      order.write(2)
      done.signal()
    }
    box.drop()
    #expect(head.hasBegun())
    head.open()
    #expect(middle.hasBegun())
    body.open()
    #expect(handed.waitUntilSignalled())
    middle.open()
    #expect(done.waitUntilSignalled())
    #expect(done.waitUntilSignalled())
    #expect(order.entries == [1, 2])
    hasHanded.open()
  }

  enum Call: CaseIterable {
    case post, observer, operationStartedByHand
  }

  /// What the body calls holds an owner of its own, which the wait isn't about.
  @Test(arguments: Call.allCases, [false, true]) func aBodyMayWaitForItsOwnersWorkInWhatItCalls(call: Call, isAsynchronous: Bool) throws {
    let queue = OwnerScopedQueue()
    let lived = Host()
    let box = Box.holding(Host())
    let lifetime = box.kept!.lifetime
    runOnce(box.kept!, on: queue)
    let wait: @Sendable () -> Void = { queue.waitUntilFinished(ownedBy: lifetime) }

    let center = NotificationCenter()
    center.observe(Notification.Name("waits"), owner: lived) { _, _ in wait() }
    let observed = OwnedBlockOperation(lifetime: .process) {}
    let observation = observed.observe(\.queuePriority, owner: lived) { _, _, _ in wait() }
    let started = OwnerBlockOperation(lived, lived.lifetime) { _ in wait() }
    let perform: @Sendable () -> Void = {
      switch call {
      case .post: center.post(name: Notification.Name("waits"), object: nil)
      case .observer: observed.queuePriority = .high
      case .operationStartedByHand: started.start()
      }
    }

    let (begun, open, done) = (DispatchSemaphore(value: 0), Event(), DispatchSemaphore(value: 0))
    let elsewhere = OwnerScopedQueue()
    if isAsynchronous {
      Task {
        try? await elsewhere.run(weakTarget(box)) { _ in
          begun.signal()
          while !open.isPast { await Task.yield() }
          perform()
          done.signal()
        }
      }
    } else {
      elsewhere.async(owner: box.kept!) { _ in
        begun.signal()
        while !open.isPast {}
        perform()
        done.signal()
      }
    }
    #expect(begun.waitUntilSignalled())
    queue.isSuspended = true
    let ran = Counter()
    for _ in 0..<3 { queue.async(owner: box.kept!) { _ in ran.add() } }
    let gone = goodbye(of: box.kept!)
    box.drop()
    queue.isSuspended = false
    #expect(queue.heldBackOwners(become: 1))
    open.happen()
    try #require(done.waitUntilSignalled())
    #expect(ran.value == 3)
    #expect(gone.waitUntilSignalled())
    withExtendedLifetime((lived, observation)) {}
  }

  /// Handlers of the same owner inside one another: each is counted out once, and in again.
  @Test func aHandlerInsideAHandlerMayWaitForTheOwnersWork() {
    let queue = OwnerScopedQueue()
    let center = NotificationCenter()
    let box = Box.holding(Host())
    let lifetime = box.kept!.lifetime
    let done = DispatchSemaphore(value: 0)
    queue.isSuspended = true
    let ran = Counter()
    let outer = center.observe(Notification.Name("outer"), owner: box.kept!) { _, _ in
      center.post(name: Notification.Name("inner"), object: nil)
    }
    let inner = center.observe(Notification.Name("inner"), owner: box.kept!) { _, _ in
      box.drop()
      queue.isSuspended = false
      _ = queue.heldBackOwners(become: 1)
      for _ in 0..<2 { queue.waitUntilFinished(ownedBy: lifetime) }
      done.signal()
    }
    for _ in 0..<3 { queue.async(owner: box.kept!) { _ in ran.add() } }
    let gone = goodbye(of: box.kept!)
    Thread.detachNewThread { center.post(name: Notification.Name("outer"), object: nil) }
    #expect(done.waitUntilSignalled())
    #expect(ran.value == 3)
    #expect(gone.waitUntilSignalled())
    withExtendedLifetime((outer, inner)) {}
  }

  /// It is still before what comes behind it. The body elsewhere hands the owner on in the end, or lets it go.
  @Test(arguments: [false, true]) func aBarrierThatIsHeldBackHoldsUpWhatComesBehindIt(isHandedOn: Bool) {
    let queue = OwnerScopedQueue()
    let (box, keeper) = (Box.holding(Host()), Box())
    let body = Gate()
    let order = Journal<String>()
    DispatchQueue.global().async(owner: box.kept!) { host in
      body.pass()
      if isHandedOn { keeper.keep(host) }
    }
    #expect(body.hasBegun())
    queue.isSuspended = true
    queue.addBarrier(owner: box.kept!) { _ in order.write("barrier") }
    queue.async(lifetime: .process) { order.write("later") }
    box.drop()
    queue.isSuspended = false
    #expect(queue.heldBackOwners(become: 1))
    #expect(order.entries.isEmpty)
    body.open()
    #expect(queue.becomesIdle())
    #expect(order.entries == (isHandedOn ? ["barrier", "later"] : ["later"]))
  }

  @Test func heldBackWorkOfOneObjectDoesNotBlockAWaitForAnotherWithTheSameToken() {
    let queue = OwnerScopedQueue()
    let token = OwnerLifetime.Token()
    let alive = Host(token)
    runOnce(alive, on: queue)
    let gate = Gate()
    let done = DispatchSemaphore(value: 0)
    let box = Box.holding(Host(token))
    queue.async(owner: box.kept!) { _ in
      gate.pass()
      queue.addOperation(owner: alive) { _ in }.waitUntilFinished()
      done.signal()
    }
    #expect(gate.hasBegun())
    let weakly = Weakly<Host>()
    weakly.object = box.kept
    queue.isSuspended = true
    queue.async(owner: box.kept!) { _ in }
    box.drop()
    queue.isSuspended = false
    var looks = 0
    while looks < 5000, !(queue.snapshot(of: token.lifetime)?.isHeldBack ?? false) {
      looks += 1
      usleep(1000)
    }
    gate.open()
    #expect(done.waitUntilSignalled())
    withExtendedLifetime(alive) {}
  }

  /// The wait begins before the operation that it waits for waits for the owner's work.
  @Test func aBodyMayWaitForWorkThatComesToWaitForItsOwner() {
    let (queue, other) = (OwnerScopedQueue(), OwnerScopedQueue())
    let (gate, inner) = (Gate(), Gate())
    let done = DispatchSemaphore(value: 0)
    do {
      let host = Host()
      queue.async(owner: host) { host in
        gate.pass()
        let mine = queue.addOperation(owner: host) { _ in }
        let theirs = other.addOperation(lifetime: .process) {
          inner.pass()
          mine.waitUntilFinished()
        }
        theirs.waitUntilFinished()
        done.signal()
      }
      #expect(gate.hasBegun())
    }
    gate.open()
    #expect(inner.hasBegun())
    inner.open()
    #expect(done.waitUntilSignalled())
  }

  private final class Cache: Sendable {
    static let shared = Cache()
  }

  /// The compiler may lay it out statically, and its references are not counted then.
  @Test func anOwnerThatLivesForEverHasAsManyBodiesAsTheLimitAllows() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 8)
    let gates = (0..<8).map { _ in Gate() }
    for gate in gates { queue.async(owner: Cache.shared) { _ in gate.pass() } }
    for gate in gates { #expect(gate.hasBegun()) }
    for gate in gates { gate.open() }
    #expect(queue.becomesIdle())
  }
}

extension OwnerScopedQueue {
  /// Waits until the work of that many owners is held back.
  fileprivate func heldBackOwners(become count: Int) -> Bool {
    eventually { self.owners.count { $0.isHeldBack } == count }
  }

  /// Runs for what the box has, without another reference for the time of the body.
  fileprivate func run(_ owner: sending () -> Host, _ body: @escaping @Sendable (Host) async throws -> Void) async throws {
    let lifetime = OwnerLifetime.of(owner())
    _ = lifetime
    try await run(owner: owner(), body)
  }
}

private func weakTarget(_ box: Box) -> () -> Host { { box.lock.withLock { box.kept! } } }
