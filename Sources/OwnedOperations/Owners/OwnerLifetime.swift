import Foundation
import Synchronization

/// The shared record of one owner: its identifier, whether it is alive, what to do when it ends, its pending work.
///
/// Work holds the lifetime, never the owner, and so never keeps the owner alive. The owner holds a ``Token``, whose deinit ends the lifetime:
///
/// ```swift
/// final class Screen: OperationOwner, Sendable {
///   let lifetimeToken = OwnerLifetime.Token(name: "screen")
/// }
///
/// var screen: Screen? = Screen()
/// let lifetime = OwnerLifetime.of(screen!)
/// lifetime.onEnd { id in print("\(id) has gone") }
/// screen = nil  // prints "owner#1 has gone"
/// ```
///
/// A lifetime without a token is a scope to end by hand; it also ends when the last reference to it goes, since nobody could end it then.
///
/// All members may be used from any thread, also from inside hooks. They take constant time unless they say otherwise.
///
/// ## Protocol
///
/// `word` says whether the lifetime is alive. It is stored under `lock` only and read without it: alive ──▶ ended, once.
///
/// - The end takes effect when `ended` is stored (releasing). A start of work reads the word (acquiring) after it has claimed the
///   work and before it runs the body: that load decides. If it reads alive, the start was under way before the end.
/// - Whoever turns the word owns the end: it takes `hooks` and the children out under the same lock, so an `onEnd` or a new child comes
///   either before, and is taken along, or after, and sees that the owner has ended. Two ends can't both win.
/// - The locks of two lifetimes are never held together, and no code of the user's runs under one.
/// - A parent knows its children unretained; a child takes itself out in its deinit at the latest.
/// - The members (pending work) stay in place at the end; the reaper takes them out bit by bit, see `LifetimeReaper`.
public final class OwnerLifetime: Sendable {
  /// Names the owner for the life of the process; never reused.
  public let id: OwnerID

  private let page: Unmanaged<OwnerIDPage>

  // Guarded by `lock`, except that `boundOwner` may be read without it once `Flag.bound` is seen: it is written once.
  nonisolated(unsafe) private var hooks: [OwnerHook] = []
  @exclusivity(unchecked) nonisolated(unsafe) private var members = MemberList()
  nonisolated(unsafe) private var relations: Relations?
  @exclusivity(unchecked) nonisolated(unsafe) private var boundOwner = MemoryReference()

  // Last, so that they are never in one cache line with the count of references, which workers would wait for.
  private let word: Atomic<UInt32>
  private let lock: Lock

  /// What few lifetimes have, kept out of the record of the many.
  private final class Relations {
    var name: String?
    var parent: OwnerLifetime?
    var endedParent: OwnerID?
    var liveness: ObjectLiveness?
    var children: [OwnerID: UnretainedReference<OwnerLifetime>] = [:]
  }

  private enum Flag {
    static let ended: UInt32 = 1
    static let bound: UInt32 = 2
    static let postsNotification: UInt32 = 4
    /// Nobody will tell of the object's end: see `objectIsAlive`.
    static let watchesObject: UInt32 = 8
    static let reasonShift: UInt32 = 8
  }

  /// Makes a lifetime that is alive, unless its parent has ended.
  /// - Parameters:
  ///   - name: shown in descriptions and error messages.
  ///   - parent: when it ends, so does this one. A child of a parent that has ended is born ended, and its ``endReason`` says so.
  public init(name: String? = nil, parent: OwnerLifetime? = nil) {
    (id, page) = OwnerIDRegistry.shared.issue()
    word = Atomic(0)
    lock = Lock(seed: id.rawValue)
    guard name != nil || parent != nil else { return }
    let relations = Relations()
    relations.name = name
    relations.parent = parent
    self.relations = relations
    if let parent, !parent.insertChild(self) {
      end(.parentEnded(parent.id))
    }
  }

  deinit {
    // No member and no child can be left: they hold their lifetime, or their parent.
    end(.released)
  }

  // MARK: State

  /// False from the instant the owner's end begins.
  public var isAlive: Bool {
    let word = word.load(ordering: .acquiring)
    if word & (Flag.ended | Flag.watchesObject) == 0 { return true }
    return word & Flag.ended == 0 && objectIsAlive()
  }

  /// Whether the owner with this identifier is alive, without its object or its lifetime at hand.
  public static func isAlive(_ id: OwnerID) -> Bool { OwnerIDRegistry.shared.isAlive(id) }

  /// Given when the lifetime was made; nil if it has none.
  public var name: String? { lock.withLock { relations?.name } }

  /// The lifetime whose end will end this one; nil if there is none, or once this one has ended.
  public var parent: OwnerLifetime? { lock.withLock { relations?.parent } }

  /// Why the owner ended; nil while it is alive.
  public var endReason: OwnerEndReason? {
    let word = word.load(ordering: .acquiring)
    guard word & Flag.ended != 0 else { return nil }
    return OwnerEndReason(code: word >> Flag.reasonShift, parent: lock.withLock { relations?.endedParent })
  }

  /// Set it to have `Notification.Name.ownerDidEnd` posted when the owner ends. False by default.
  public var postsDidEndNotification: Bool {
    get { word.load(ordering: .relaxed) & Flag.postsNotification != 0 }
    set {
      lock.withLock {
        let others = word.load(ordering: .relaxed) & ~Flag.postsNotification
        word.store(newValue ? others | Flag.postsNotification : others, ordering: .releasing)
      }
    }
  }

  // MARK: End

  /// Ends the owner, and its children before its own hooks. Does nothing if it has ended.
  ///
  /// When this returns, `isAlive` is false here and below, all pending work counts as cancelled, and the hooks have run, on this
  /// thread. Two exceptions: if another thread is ending the same owner, that thread runs the hooks and this call doesn't
  /// wait for them; and the hooks of ends that are nested in hooks more than 32 deep run before the outermost end
  /// returns, so that a long line of owners doesn't overflow the stack. Pending work is cleaned up in the background.
  ///
  /// Constant time in the pending work; linear in the hooks and the descendants.
  public func end() {
    end(.requested)
  }

  func end(_ reason: OwnerEndReason) {
    guard var closed = close(reason) else { return }
    closed.parent?.removeChild(id)
    if !closed.children.isEmpty {
      let endings = closeTree(from: closed, reason)
      HookRun.perform { for ending in endings.reversed() { ending.tell() } }
    } else if !closed.hooks.isEmpty || postsDidEndNotification {
      let ending = Ending(self, reason, closed)
      HookRun.perform { ending.tell() }
    }
    if closed.parent != nil { Self.release(&closed.parent) }
  }

  /// Closes everything below, breadth first: every child comes after its parent in the array, and an end tells from the back to the front.
  private func closeTree(from root: Closed, _ reason: OwnerEndReason) -> [Ending] {
    var endings = [Ending(self, reason, root)]
    var waiting = root.children.map { (child: $0, parent: id) }
    while !waiting.isEmpty {
      var next: [(child: OwnerLifetime, parent: OwnerID)] = []
      for (child, parent) in waiting {
        guard let closed = child.close(.parentEnded(parent)) else { continue }
        endings.append(Ending(child, .parentEnded(parent), closed))
        for grandchild in closed.children { next.append((grandchild, child.id)) }
      }
      waiting = next
    }
    return endings
  }

  /// What an end takes out of a lifetime that has any of it.
  private struct Closed {
    var hooks: [OwnerHook] = []
    var parent: OwnerLifetime?
    var children: [OwnerLifetime] = []
  }

  /// Turns the word and takes out what the end is to deal with, or returns nil if another end has.
  private func close(_ reason: OwnerEndReason) -> Closed? {
    guard word.load(ordering: .relaxed) & Flag.ended == 0 else { return nil }
    var closed = Closed()
    lock.lock()
    let word = word.load(ordering: .relaxed)
    guard word & Flag.ended == 0 else {
      lock.unlock()
      return nil
    }
    self.word.store(word | Flag.ended | reason.code << Flag.reasonShift, ordering: .releasing)
    swap(&closed.hooks, &hooks)
    if let relations {
      if case .parentEnded(let parent) = reason { relations.endedParent = parent }
      swap(&closed.parent, &relations.parent)
      closed.children = relations.children.values.compactMap { $0.retained() }
      relations.children = [:]
    }
    let hasMembers = members.count > 0
    lock.unlock()
    OwnerIDRegistry.shared.markEnded(id, on: page)
    if hasMembers { LifetimeReaper.reap(self) }
    return closed
  }

  /// One lifetime that has been closed and whose audience has yet to hear of it.
  private struct Ending {
    let id: OwnerID
    let hooks: [OwnerHook]
    /// Set if a notification is to be posted. A lifetime in its deinit can't be handed out any more.
    let postsNotification: Bool
    let lifetime: OwnerLifetime?

    init(_ lifetime: OwnerLifetime, _ reason: OwnerEndReason, _ closed: Closed) {
      id = lifetime.id
      hooks = closed.hooks
      postsNotification = lifetime.postsDidEndNotification
      self.lifetime = postsNotification && reason != .released ? lifetime : nil
    }

    func tell() {
      for hook in hooks { hook.run(id) }
      if postsNotification {
        NotificationCenter.default.post(name: .ownerDidEnd, object: lifetime, userInfo: [OwnerLifetime.ownerIDKey: id])
      }
    }
  }

  // MARK: Hooks

  /// Runs the closure once, when the owner ends, on the thread that ends it and outside every lock; at once, on this thread, if it has ended.
  ///
  /// Hooks run in the order in which they were added, after those of the children. The closure is released when it has run or is cancelled.
  /// A hook may add and cancel hooks, end owners, and drop the last reference to one. Amortised constant time.
  /// - Returns: the hook, for those who may want to cancel it. The lifetime keeps it.
  @discardableResult
  public func onEnd(_ body: @escaping @Sendable (OwnerID) -> Void) -> OwnerHook {
    let hook = OwnerHook(body)
    let isAdded = lock.withLock {
      guard word.load(ordering: .relaxed) & Flag.ended == 0 else { return false }
      if hooks.count == hooks.capacity { sweepHooks() }
      hooks.append(hook)
      return true
    }
    if !isAdded { HookRun.perform { [id] in hook.run(id) } }
    return hook
  }

  /// Cancelled hooks stay in the array, without their closures, until it would have to grow. Doubling what is left over keeps that amortised O(1).
  private func sweepHooks() {
    hooks.removeAll { !$0.isPending }
    if hooks.count > hooks.capacity / 2 { hooks.reserveCapacity(hooks.capacity * 2) }
  }

  // MARK: Hierarchy

  /// Makes the lifetime end when `parent` ends, instead of its parent until now. Nil makes it independent.
  ///
  /// If the new parent has ended, the lifetime ends before this returns. Linear in the depth of the tree above `parent`.
  /// - Throws: ``OwnerLifetimeError/parentCycle(_:)`` if `parent` is the lifetime itself or one of its descendants;
  ///   ``OwnerLifetimeError/alreadyEnded(_:)`` if the lifetime has ended. Nothing has changed then.
  public func setParent(_ parent: OwnerLifetime?) throws(OwnerLifetimeError) {
    let hasEnded = try Self.linking.withLock { () throws(OwnerLifetimeError) in try link(to: parent) }
    if let parent, hasEnded { end(.parentEnded(parent.id)) }
  }

  /// A cycle can only come from `setParent`: one thread at a time looks for it and links.
  private static let linking = Lock()

  /// - Returns: whether the parent turned out to have ended.
  private func link(to parent: OwnerLifetime?) throws(OwnerLifetimeError) -> Bool {
    try checkAncestors(of: parent)
    var former: OwnerLifetime?
    let isChanged = lock.withLock {
      guard word.load(ordering: .relaxed) & Flag.ended == 0 else { return false }
      let relations = relations ?? Relations()
      self.relations = relations
      former = relations.parent
      relations.parent = parent
      return true
    }
    guard isChanged else { throw .alreadyEnded(description) }
    former?.removeChild(id)
    guard let parent else { return false }
    guard parent.insertChild(self) else { return true }
    if !isAlive { parent.removeChild(id) }  // ended meanwhile, perhaps before it was there to be removed
    return false
  }

  private func checkAncestors(of parent: OwnerLifetime?) throws(OwnerLifetimeError) {
    var path = [description]
    var ancestor = parent
    while let current = ancestor {
      path.append(current.description)
      if current === self { throw .parentCycle(path) }
      ancestor = current.parent
    }
  }

  private func insertChild(_ child: OwnerLifetime) -> Bool {
    lock.withLock {
      guard word.load(ordering: .relaxed) & Flag.ended == 0 else { return false }
      let relations = relations ?? Relations()
      self.relations = relations
      relations.children[child.id] = UnretainedReference(child)
      return true
    }
  }

  private func removeChild(_ id: OwnerID) {
    lock.withLock { _ = relations?.children.removeValue(forKey: id) }
  }

  /// Lets go of a parent. Where nobody else holds it, that ends it and lets go of its own parent, and so on: one after the other here,
  /// instead of one inside the other.
  private static func release(_ ancestor: inout OwnerLifetime?) {
    while ancestor != nil, isKnownUniquelyReferenced(&ancestor) {
      let next = ancestor?.detachParent()
      ancestor = next
    }
    ancestor = nil
  }

  private func detachParent() -> OwnerLifetime? {
    let parent = lock.withLock {
      defer { relations?.parent = nil }
      return relations?.parent
    }
    parent?.removeChild(id)
    return parent
  }

  // MARK: Pending work

  /// Has the member told when the owner ends. O(1).
  /// - Returns: false if the owner has ended: the caller does then what the member would do.
  func join(_ member: some LifetimeMember) -> Bool {
    lock.withLock {
      guard word.load(ordering: .relaxed) & Flag.ended == 0 else { return false }
      members.insert(member)
      return true
    }
  }

  /// The member has nothing pending any more. Does nothing if it has left or the reaper has taken it. O(1).
  func leave(_ member: some LifetimeMember) {
    lock.withLock { members.remove(member, keepingPlaces: word.load(ordering: .relaxed) & Flag.ended != 0) }
  }

  /// For the reaper, after the end; see ``MemberList/take(from:limit:into:)``.
  func takeMembers(from start: Int, limit: Int, into taken: inout [any LifetimeMember]) -> Int? {
    lock.withLock {
      let next = members.take(from: start, limit: limit, into: &taken)
      if next == nil { members.removeAll() }
      return next
    }
  }

  // MARK: For tests that say memory stays flat

  var hookCapacity: Int { lock.withLock { hooks.capacity } }
  var childCount: Int { lock.withLock { relations?.children.count ?? 0 } }

  // MARK: The owner itself

  /// For a lifetime that was just made: its object's end will be noticed by asking.
  func watch(_ liveness: ObjectLiveness) {
    lock.withLock {
      let relations = relations ?? Relations()
      self.relations = relations
      relations.liveness = liveness
      word.store(word.load(ordering: .relaxed) | Flag.watchesObject, ordering: .releasing)
    }
  }

  /// Asks after the object, and has the lifetime ended if it has gone: in the background, because whoever asks may hold a lock.
  private func objectIsAlive() -> Bool {
    guard lock.withLock({ relations?.liveness?.isAlive ?? true }) else {
      LifetimeReaper.end(self, .objectDeinitialised)
      return false
    }
    return true
  }

  /// Makes `owner` the object that ``boundOwnerObject`` gives, held weakly, unless another object came first: several
  /// objects may share a token. An object that is deinitialising is not bound.
  /// - Returns: whether `owner` is the one.
  func bind(_ owner: AnyObject) -> Bool {
    if word.load(ordering: .acquiring) & Flag.bound == 0 {
      let isBound = lock.withLock {
        let word = word.load(ordering: .relaxed)
        guard word & Flag.bound == 0 else { return true }
        boundOwner = MemoryReference(owner)
        guard !boundOwner.isEmpty else { return false }
        self.word.store(word | Flag.bound, ordering: .releasing)
        return true
      }
      guard isBound else { return false }
    }
    return boundOwner.refers(to: owner)
  }

  /// The object bound, while it is there. Only after `bind` has returned true.
  var boundOwnerObject: AnyObject? { boundOwner.retained() }
}

extension OwnerLifetime: CustomStringConvertible {
  /// For example `owner#42 "screen"`, or `owner#42 (ended)`.
  public var description: String {
    let named = name.map { "\(id) \"\($0)\"" } ?? "\(id)"
    guard let endReason else { return named }
    return "\(named) (ended: \(endReason))"
  }
}
