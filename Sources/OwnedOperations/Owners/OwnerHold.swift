import Dispatch
import Synchronization

/// Work that waits until it is clear what becomes of its owner.
protocol HeldBackWork: AnyObject, Sendable {
  /// Somebody other than the owner's running bodies holds it, or it has gone. Any thread, outside every lock. May be called once too often.
  func ownerWasDecided()
}

/// How many references to an object are held by running bodies of its own work, over all queues, tokens and GCD forms.
///
/// An owner that only its own running bodies hold is about to go: no further body of it begins. Those that run finish, and the last one
/// lets it go. The runtime tells how many strong references there are. If there are no more than the bodies hold, nobody else holds the
/// owner.
///
/// ## Protocol
///
/// `word`: bit 0 says that work is held back. `bodies` counts the bodies that hold the object, `changing` those of them that are just
/// retaining or releasing, `version` the changes.
///
/// - A body counts itself before it retains, and is `changing` until it has. It is `changing` again from before its release until it has
///   counted itself out.
/// - So bodies hold at most `bodies` references, and exactly as many while nobody is `changing`.
/// - Whoever decides reads the word, the references, and the word again. If it has not changed, the references belong to it.
/// - More references than bodies: somebody else holds the object. No more, and nobody `changing`: only bodies do. Otherwise it looks again.
/// - A decision by a body is made while it holds the object. So no release that is `changing` meanwhile is the last, and none takes long.
/// - Work that is held back is looked at again when it is kept (`keep`), and when work of the owner is added.
/// - It is looked at, too, when a body that sees bit 0 has counted itself out, or begins. A timer also looks, because no event announces a
///   new reference.
/// - Bit 0 is set under `lock`, after the work was put where it waits. It is cleared under `lock`, when the work is taken out to go on.
/// - A body that waits for its owner's work, through a call of ours, counts itself out while it waits (`OwnBodyWait`). So do all bodies
///   that the waiting thread is inside of and whose owners' work it is (`OwnerBodyFrame`), each once.
/// - The object's memory is held as long as this exists: its count may be read at any time, and its address is nobody else's.
///
/// Where there is an Objective-C runtime, references in autorelease pools count as somebody else's: work goes on until they are gone.
final class OwnerHold: Sendable {
  private let object: MemoryReference
  /// Where a queue has what it knows of the owner. Here, because who adds work reads this cache line anyway, or the one before it.
  let place = ClaimedPlace()
  nonisolated(unsafe) private var waiting: Waiting?  // by `lock`; here, because there is one for each owner that has work
  private let lock = Lock()
  /// The object's references are not counted: it lives for ever, as one that the compiler has laid out statically.
  private let isImmortal: Bool
  private let isInRegistry: Bool
  /// How many queues have displaced blocks. A hint, which a serial queue's next block sees: it comes after.
  private let displacedCount = Atomic<Int>(0)
  /// Keeps `object` and `place` in other cache lines than `word`. Those who add work read these, those who run it write the word.
  private let padding: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
  private let word = Atomic<UInt64>(0)
  private let references = ModelPoint()

  /// What few owners ever have. Apart, so that a hold takes 104 bytes. Mostly another thread frees it than has made it, and from 121 on
  /// glibc's malloc takes a lock for that, which the maker's next allocation waits for.
  private final class Waiting {
    var heldBack: [any HeldBackWork] = []
    /// For each dispatch queue, the blocks that were held back, or came behind such, and have not run.
    var displaced: [ObjectIdentifier: BlockLine] = [:]
    /// How long the timer waits next; 0 while it is not set.
    var delay = 0
  }

  private static let isHeldBack: UInt64 = 1
  private static let oneBody: UInt64 = 1 << 1
  private static let oneChanging: UInt64 = 1 << 21
  private static let oneVersion: UInt64 = 1 << 41
  private static let quickLooks = 100
  /// Microseconds.
  private static let pause: UInt32 = 50
  private static let firstDelay = 50
  private static let longestDelay = 1000
  private static let timerQueue = DispatchQueue(label: "OwnedOperations.OwnerHold", qos: .utility)

  /// For the object's lifetime, or the registry: there is one for each object.
  init(_ object: AnyObject, isInRegistry: Bool = false) {
    self.object = MemoryReference(object)
    isImmortal = !Self.countsReferences(object)
    self.isInRegistry = isInRegistry
  }

  /// Others may retain and release meanwhile, so that one look proves nothing.
  private static func countsReferences(_ object: AnyObject) -> Bool {
    for _ in 0..<8 {
      let before = Borrowed(object).referenceCount
      let further = Retained(object)
      let after = further.borrowed.referenceCount
      further.release()
      if before != after { return true }
    }
    return false
  }

  deinit { if isInRegistry { OwnerHoldRegistry.remove(self, address) } }

  /// The hold of the object, the same one as long as anybody holds it. An object that is deinitialising gets one that never holds it.
  ///
  /// An owner with a token has it in the lifetime behind that, unless another object shares it and came first. The holds of all others are
  /// in a registry. Constant time. Not under a lock: it asks for the token.
  static func of(_ object: AnyObject) -> OwnerHold {
    if let owner = object as? any OperationOwner {
      let lifetime = owner.lifetimeToken.lifetime
      if lifetime.bindOwn(owner), let hold = lifetime.ownerHold { return hold }
    }
    return ofRegistry(object)
  }

  /// `of`, for an object without a token, or one that shares its token with another, to which the lifetime is bound.
  static func ofRegistry(_ object: AnyObject) -> OwnerHold {
    OwnerHoldRegistry.hold(of: object) { OwnerHold(object, isInRegistry: true) }
  }

  /// The hold of the object, found without a table if the object is the one that the lifetime is bound to.
  static func of(_ object: AnyObject, _ lifetime: OwnerLifetime) -> OwnerHold {
    if lifetime.bind(object), let hold = lifetime.ownerHold { return hold }
    return of(object)
  }

  /// False for an object that was deinitialising already.
  var isOfObject: Bool { object.address != nil }

  /// Takes no reference, where the runtime tells.
  var isObjectAlive: Bool { object.isAlive }

  func refers(to other: AnyObject) -> Bool { object.refers(to: other) }

  fileprivate var address: UnsafeMutableRawPointer? { object.address }

  // MARK: Bodies

  enum Beginning {
    /// The caller holds the object, until it calls `end`.
    case begins(Retained<AnyObject>)
    /// To be given to `keep`.
    case heldBack
    case gone
  }

  /// Whether a body may begin. The object is retained for it then.
  func begin() -> Beginning {
    var held: Retained<AnyObject>?
    let beginning = begin(&held)
    if let held { endInBackground(held) }
    return beginning
  }

  /// The same for where the object may have to go on this thread: that of the main actor, of another actor.
  /// - Parameter held: the object, if work is held back. To be given to `end`, as the last of all: should nobody else hold it any more, its
  ///   deinit runs there, and may wait for the work and what that has captured.
  func begin(_ held: inout Retained<AnyObject>?) -> Beginning {
    guard let object = retain() else { return .gone }
    guard mayBegin(object) else {
      held = object
      return .heldBack
    }
    return .begins(object)
  }

  /// Retains the object for a body, which is to ask `mayBegin`. Nil if it has gone.
  func retain() -> Retained<AnyObject>? {
    if !Mutation.bodyIsCountedLate.isOn { change(by: Self.oneBody &+ Self.oneChanging) }
    references.pass()
    let retained = object.retain()
    if Mutation.bodyIsCountedLate.isOn { change(by: Self.oneBody &+ Self.oneChanging) }
    guard let retained else {
      countedOut(change(by: 0 &- Self.oneBody &- Self.oneChanging))
      return nil
    }
    change(by: 0 &- Self.oneChanging)
    return retained
  }

  /// Whether somebody other than bodies holds the object, which the caller holds as a body.
  @inline(__always)  // for each job with an owner
  func mayBegin(_ object: Retained<AnyObject>) -> Bool {
    guard isHeldByOthers(object.borrowed) || Mutation.bodiesKeepTheOwner.isOn else { return false }
    if word.load(ordering: .relaxed) & Self.isHeldBack != 0 { lookAgain() }
    return true
  }

  /// - Parameter looks: how often to look at most; without an end for a body, which holds the object.
  @inline(__always)  // for each job with an owner
  func isHeldByOthers(_ object: Borrowed<AnyObject>, looks: Int = .max) -> Bool {
    let before = word.load(ordering: .acquiring)
    self.references.pass()
    let references = object.referenceCount
    atomicMemoryFence(ordering: .acquiring)
    if before == word.load(ordering: .relaxed) || Mutation.holdTrustsOneLook.isOn, references > Self.bodies(before) { return true }
    return isImmortal || isHeldByOthersAfterAll(object, looks)
  }

  /// Looks until the answer is certain.
  @inline(never)
  private func isHeldByOthersAfterAll(_ object: Borrowed<AnyObject>, _ looks: Int) -> Bool {
    var look = 0
    while look < looks {
      let before = word.load(ordering: .acquiring)
      self.references.pass()
      let references = object.referenceCount
      atomicMemoryFence(ordering: .acquiring)
      if before == word.load(ordering: .relaxed) || Mutation.holdTrustsOneLook.isOn {
        if references > Self.bodies(before) { return true }
        if before & (Self.oneVersion - Self.oneChanging) == 0 { return false }
      }
      look += 1
      // Who is changing may have lost its processor.
      if look > Self.quickLooks { Platform.sleep(microseconds: Self.pause) } else if look > Self.quickLooks / 2 { Platform.yield() }
    }
    return false
  }

  private static func bodies(_ word: UInt64) -> Int { Int(word & (oneChanging - oneBody)) >> 1 }

  /// The body is over, or doesn't begin.
  func end(_ object: Retained<AnyObject>) {
    if !Mutation.bodyLetsGoUnannounced.isOn { change(by: Self.oneChanging) }
    references.pass()
    object.release()
    if Mutation.bodyLetsGoUnannounced.isOn { change(by: Self.oneChanging) }
    countedOut(change(by: 0 &- Self.oneBody &- Self.oneChanging))
  }

  /// `end`, for those who have the next piece of work in hand. If this is the last reference, the owner's deinit must not hold that work
  /// up.
  func endInBackground(_ object: Retained<AnyObject>) {
    DeferredReleases.add(BodyReference(self, object))
  }

  /// Only for `Mutation.letsGoWithWorkInHand`: `end`, on this thread if somebody else holds the object, who may be the first to let go.
  func endWithoutRelease(_ object: Retained<AnyObject>) {
    if isHeldByOthers(object.borrowed) { end(object) } else { endInBackground(object) }
  }

  @discardableResult
  private func change(by difference: UInt64) -> UInt64 {
    word.wrappingAdd(difference &+ Self.oneVersion, ordering: .sequentiallyConsistent).newValue
  }

  private func countedOut(_ word: UInt64) {
    if word & Self.isHeldBack != 0 { lookAgain() }
  }

  /// A body that holds the object waits, or its reference has gone without `end`.
  func countOut() { countedOut(change(by: 0 &- Self.oneBody)) }

  /// A body that holds the object has waited.
  func countIn() { change(by: Self.oneBody) }

  /// Calls the body of work that holds the object. What it waits for may let other work of the owner begin: see `OwnBodyWait`.
  func call(_ body: ErasedOwnerBody.ThrowingBody, with object: Retained<AnyObject>) throws {
    try OwnerBodyFrame.run(for: self) { try object.with { try body($0) } }
  }

  func call(_ body: ErasedOwnerBody.Body, with object: Retained<AnyObject>) {
    OwnerBodyFrame.run(for: self) { object.with { body($0) } }
  }

  // MARK: Order of held-back blocks

  /// A block that is held back goes to the end of its dispatch queue later. Those of the same owner behind it in that queue do so, too,
  /// until it has run: they stay in order.
  /// - Parameter queue: names the queue, whatever object it is this time.
  func displace(_ block: AnyObject, on queue: ObjectIdentifier) {
    withWaiting { waiting in
      waiting.displaced[queue, default: BlockLine()].append(ObjectIdentifier(block))
      displacedCount.store(waiting.displaced.count, ordering: .relaxed)
    }
  }

  /// Whether a block that has come to its turn has to go behind others.
  func mustGoBehind(_ block: AnyObject, on queue: @autoclosure () -> ObjectIdentifier) -> Bool {
    if displacedCount.load(ordering: .relaxed) == 0 { return false }
    let queue = queue()
    return withWaiting { waiting in waiting.displaced[queue].map { $0.first != ObjectIdentifier(block) } ?? false }
  }

  /// A block that was displaced runs now, or never will.
  func settle(_ block: AnyObject, on queue: ObjectIdentifier) {
    withWaiting { waiting in
      waiting.displaced[queue]?.remove(ObjectIdentifier(block))
      if waiting.displaced[queue]?.first == nil { waiting.displaced[queue] = nil }
      displacedCount.store(waiting.displaced.count, ordering: .relaxed)
    }
  }

  // MARK: Held-back work

  /// Has the work told when somebody else holds the object. The work lies where it waits already.
  func keep(_ work: any HeldBackWork) {
    let isTimerDue = withWaiting { waiting in
      waiting.heldBack.append(work)
      word.bitwiseOr(Self.isHeldBack, ordering: .acquiringAndReleasing)
      defer { if waiting.delay == 0 { waiting.delay = Self.firstDelay } }
      return waiting.delay == 0
    }
    if !Mutation.heldBackWorkIsForgotten.isOn { lookAgain() }
    if isTimerDue { setTimer(Self.firstDelay) }
  }

  /// Work of the owner was added.
  func lookAgainIfHeldBack() {
    if word.load(ordering: .acquiring) & Self.isHeldBack != 0 { lookAgain() }
  }

  private func lookAgain() {
    var decided: [any HeldBackWork] = []
    withWaiting { waiting in
      guard isDecided else { return }
      word.bitwiseAnd(~Self.isHeldBack, ordering: .acquiringAndReleasing)
      swap(&decided, &waiting.heldBack)
    }
    for work in decided { work.ownerWasDecided() }
    if !decided.isEmpty { DeferredReleases.add(contentsOf: consume decided) }
  }

  private var isDecided: Bool {
    guard object.isAlive, let address else { return true }
    return isHeldByOthers(Borrowed(address: address), looks: Self.quickLooks)
  }

  private func setTimer(_ milliseconds: Int) {
    Uptime.call(after: .milliseconds(milliseconds), on: Self.timerQueue) { [weak self] in self?.timerDidFire() }
  }

  private func timerDidFire() {
    lookAgain()
    let next = withWaiting { waiting in
      waiting.delay = waiting.heldBack.isEmpty ? 0 : min(Self.longestDelay, waiting.delay * 2)
      return waiting.delay
    }
    if next > 0 { setTimer(next) }
  }

  /// Under the lock.
  private func withWaiting<Result>(_ body: (Waiting) -> Result) -> Result {
    lock.withLock {
      let waiting = self.waiting ?? Waiting()
      self.waiting = waiting
      return body(waiting)
    }
  }
}

/// Blocks in the order of their turns. Taking the first away takes amortised constant time.
private struct BlockLine {
  private var blocks: [ObjectIdentifier] = []
  private var start = 0

  var first: ObjectIdentifier? { start < blocks.count ? blocks[start] : nil }

  mutating func append(_ block: ObjectIdentifier) { blocks.append(block) }

  mutating func remove(_ block: ObjectIdentifier) {
    if first == block {
      start += 1
    } else if let place = blocks[start...].firstIndex(of: block) {
      blocks.remove(at: place)
    }
    if start > 64, start * 2 > blocks.count {
      blocks.removeFirst(start)
      start = 0
    }
  }
}

/// A body's reference, to be let go of where this is released.
final class BodyReference: Sendable {
  private let hold: OwnerHold
  private let object: Retained<AnyObject>

  init(_ hold: OwnerHold, _ object: Retained<AnyObject>) {
    self.hold = hold
    self.object = object
  }

  deinit { hold.end(object) }
}

/// Finds the hold of an object by its address, where no token leads to it.
///
/// A hold is known unretained, and takes itself out in its deinit. In between it may be found, but can't be retained any more; then a new
/// one takes its place.
private enum OwnerHoldRegistry {
  private final class Shard: Sendable {
    let holds = Locked(PointerMap<UnretainedReference<OwnerHold>>())
  }

  private static let shardBits = 6
  private static let shards = (0..<1 << shardBits).map { _ in Shard() }

  private static func shard(of address: UnsafeMutableRawPointer) -> Shard { shards[AddressHash(address).shard(shardBits)] }

  static func hold(of object: AnyObject, create: () -> OwnerHold) -> OwnerHold {
    let address = Borrowed(object).address
    // That of a former object, by the platform's way to refer to one. Goes outside the lock, which its deinit takes.
    var former: OwnerHold?
    let hold = shard(of: address).holds.withLock { holds in
      former = holds[address]?.retained()
      if let known = former, known.refers(to: object) { return known }
      let new = create()
      if new.address != nil { holds[address] = UnretainedReference(new) }
      return new
    }
    withExtendedLifetime(former) {}
    return hold
  }

  /// In the hold's deinit.
  static func remove(_ hold: OwnerHold, _ address: UnsafeMutableRawPointer?) {
    guard let address else { return }
    shard(of: address).holds.withLock { holds in
      // Unless another has taken its place.
      guard holds[address]?.refers(to: hold) ?? false else { return }
      holds[address] = nil
    }
  }
}
