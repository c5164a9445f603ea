import Foundation
import Synchronization

/// The shared record of one owner: its identifier, whether it is alive, what to do when it ends, its pending work.
///
/// Work holds the lifetime, never the owner, and so never keeps the owner alive. The owner holds a ``Token``, whose deinit ends the
/// lifetime:
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
public final class OwnerLifetime: Sendable {
  // Protocol
  //
  // `word` says whether the lifetime is alive. It is stored under `lock` only and read without it: alive ──▶ ended, once.
  //
  // - The end takes effect when `ended` is stored (releasing). A start of work reads the word (acquiring) after it has claimed the
  //   work and before it runs the body: that load decides. If it reads alive, the start was under way before the end.
  // - Whoever turns the word owns the end: it takes `hooks` and the children out under the same lock. So an `onEnd` or a new child comes
  //   before, and is taken along, or after, and sees the end. Two ends can't both win.
  // - The locks of two lifetimes are never held together, and no code of the user's runs under one. (`linking` may be held around one.)
  // - A parent knows its children unretained; a child takes itself out at its end, when everything below it has ended.
  // - An end closes the whole tree before it tells anybody. Of each lifetime with children the one who turned its word sets
  //   `Flag.closing` along with `ended`, keeps the children in `relations.closing`, and takes both back when all below has ended.
  // - An end that finds a lifetime `closing`, its own or one below, doesn't wait: it closes the children itself, and returns when all below
  //   has ended. Whoever turns a child's word runs that child's hooks; nobody waits for those of others.
  // - `relations.parent`, under the child's own lock, says whose child it is. A parent's end closes a child only if it says so still.
  // - `setParent` writes `relations.parent` first, then changes the two lists, then looks whether the child has ended, and takes it out
  //   again.
  // - The members (pending work) stay in place at the end; the reaper takes them out bit by bit, see `LifetimeReaper`.

  /// Names the owner for the life of the process; never reused.
  public let id: OwnerID

  private let page: Borrowed<OwnerIDPage>

  // Here, and not in memory of their own, because every owner has them. `lock` makes their accesses exclusive.
  @exclusivity(unchecked) nonisolated(unsafe) private var guarded = Guarded()
  /// Written once, under `lock`; may be read without it once `Flag.bound` is seen.
  @exclusivity(unchecked) nonisolated(unsafe) private var boundHold: OwnerHold?

  // Last, so that they are never in one cache line with the count of references, which workers would wait for.
  private let word: Atomic<UInt32>
  private let lock: Lock

  private struct Guarded {
    var hooks: OwnerHookList?
    var members = MemberList()
    var relations: Relations?

    mutating func makeRelations() -> Relations {
      let made = relations ?? Relations()
      relations = made
      return made
    }
  }

  /// What few lifetimes have, kept out of the record of the many.
  private final class Relations {
    var name: String?
    var parent: OwnerLifetime?
    var endedParent: OwnerID?
    var liveness: ObjectLiveness?
    var children: [OwnerID: UnretainedReference<OwnerLifetime>] = [:]
    /// The children that an end has taken out, until everything below has ended.
    var closing: [OwnerLifetime] = []

    /// Amortised constant time: a dictionary doesn't shrink by itself.
    func removeChild(_ id: OwnerID) {
      guard children.removeValue(forKey: id) != nil, children.capacity > 64, children.count < children.capacity / 8 else { return }
      var smaller = [OwnerID: UnretainedReference<OwnerLifetime>](minimumCapacity: children.count * 2)
      for (id, child) in children { smaller[id] = child }
      children = smaller
    }
  }

  private enum Flag {
    static let ended: UInt32 = 1
    static let bound: UInt32 = 2
    static let postsNotification: UInt32 = 4
    /// Nobody will tell of the object's end: see `objectIsAlive`.
    static let watchesObject: UInt32 = 8
    static let neverEnds: UInt32 = 16
    /// Work of several objects came with it.
    static let shared: UInt32 = 32
    /// Has ended, and something below perhaps not yet.
    static let closing: UInt32 = 64
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
    let relations = guarded.makeRelations()
    relations.name = name
    relations.parent = parent
    if let parent, !parent.insertChild(self) {
      end(.parentEnded(parent.id))
    }
  }

  /// The lifetime of the process, which never ends: for work that belongs to nobody in particular, and for lifetimes that are to have a
  /// parent.
  ///
  /// ```swift
  /// let queue = OwnerScopedQueue()
  /// queue.async(lifetime: .process) { print("runs, whoever goes") }
  /// ```
  ///
  /// It is alive as long as the process is. To call ``end()`` on it is a programming error, which stops the process; ``setParent(_:)``
  /// throws. Members, children and hooks come and go with their own ends; the memory of those that have gone is given back.
  public static let process: OwnerLifetime = {
    let lifetime = OwnerLifetime(name: "process")
    lifetime.word.store(Flag.neverEnds, ordering: .relaxed)
    return lifetime
  }()

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
  public var name: String? { lock.withLock { guarded.relations?.name } }

  /// The lifetime whose end will end this one; nil if there is none, or once this one has ended.
  public var parent: OwnerLifetime? { lock.withLock { guarded.relations?.parent } }

  /// Why the owner ended; nil while it is alive.
  public var endReason: OwnerEndReason? {
    let word = word.load(ordering: .acquiring)
    guard word & Flag.ended != 0 else { return nil }
    return OwnerEndReason(code: word >> Flag.reasonShift, parent: lock.withLock { guarded.relations?.endedParent })
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
  /// When this returns, `isAlive` is false here and below, whichever thread ended what; all pending work counts as cancelled, and the hooks
  /// have run, on this thread. Two exceptions, about hooks only: what another thread ends at the same time, this owner, one below or one
  /// above, that thread runs the hooks of, and this call doesn't wait for them; and the hooks of ends that are nested in hooks more than 32
  /// deep run before the outermost end returns. So a long line of owners doesn't overflow the stack. Pending work is cleaned up in the
  /// background.
  ///
  /// - Complexity: constant in the pending work; linear in the hooks and the descendants.
  ///
  /// - Precondition: it is not ``process``.
  public func end() {
    precondition(
      word.load(ordering: .relaxed) & Flag.neverEnds == 0,
      "OwnerLifetime.process can't be ended, because it is the lifetime of the process; make a lifetime of your own for what is to end earlier"
    )
    end(.requested)
  }

  func end(_ reason: OwnerEndReason) {
    guard var closed = close(reason) else { return endWhatIsBelow() }
    if !closed.children.isEmpty {
      let endings = closeTree(from: closed, reason)
      closed.parent?.removeChild(id)
      HookRun.perform { for ending in endings.reversed() { ending.tell() } }
    } else {
      closed.parent?.removeChild(id)
      if !closed.hooks.isEmpty || postsDidEndNotification {
        let ending = Ending(self, reason, closed)
        HookRun.perform { ending.tell() }
      }
    }
    if closed.parent != nil { Self.release(&closed.parent) }
  }

  /// Another end was first, and may not be through with the tree.
  @inline(__always)  // for each deinit
  private func endWhatIsBelow() {
    if word.load(ordering: .acquiring) & Flag.closing != 0 { closeRest() }
  }

  @inline(never)
  private func closeRest() {
    var endings: [Ending] = []
    Self.closeAll(closingChildren.map { (child: $0, parent: id) }, &endings)
    if !endings.isEmpty { HookRun.perform { for ending in endings.reversed() { ending.tell() } } }
  }

  /// Closes everything below, breadth first: every child comes after its parent in the array, and an end tells from the back to the front.
  func closeTree(from root: Closed, _ reason: OwnerEndReason) -> [Ending] {
    var endings = [Ending(self, reason, root)]
    Self.closeAll(root.children.map { (child: $0, parent: id) }, &endings)
    stopClosing()
    return endings
  }

  /// Closes these lifetimes and everything below them. What others close at the same time is gone through all the same: they may have got
  /// less far.
  private static func closeAll(_ lifetimes: [(child: OwnerLifetime, parent: OwnerID)], _ endings: inout [Ending]) {
    var waiting = lifetimes
    var closing: [OwnerLifetime] = []
    while !waiting.isEmpty {
      var next: [(child: OwnerLifetime, parent: OwnerID)] = []
      for (child, parent) in waiting {
        let children: [OwnerLifetime]
        if let closed = child.close(.parentEnded(parent)) {
          endings.append(Ending(child, .parentEnded(parent), closed))
          children = closed.children
          if !children.isEmpty { closing.append(child) }
        } else {
          children = child.closingChildren
        }
        for grandchild in children { next.append((grandchild, child.id)) }
      }
      waiting = next
    }
    // `closing` keeps them until none has children left: a long line of them goes one after the other, instead of one inside the other.
    for lifetime in closing { lifetime.stopClosing() }
  }

  /// The children of one that has ended, as long as something below may be alive.
  private var closingChildren: [OwnerLifetime] {
    guard word.load(ordering: .acquiring) & Flag.closing != 0, !Mutation.secondEndMissesTheTree.isOn else { return [] }
    return lock.withLock { guarded.relations?.closing ?? [] }
  }

  /// Everything below has ended. For whoever has turned the word, and still has the children.
  private func stopClosing() {
    var former: [OwnerLifetime] = []  // goes outside the lock
    lock.withLock {
      if let relations = guarded.relations { swap(&former, &relations.closing) }
      word.store(word.load(ordering: .relaxed) & ~Flag.closing, ordering: .releasing)
    }
  }

  /// What an end takes out of a lifetime that has any of it.
  struct Closed {
    var hooks: [OwnerHook] = []
    var parent: OwnerLifetime?
    var children: [OwnerLifetime] = []
  }

  /// Turns the word and takes out what the end is to deal with. Nil if another end has, or if it is the end of a parent who is not the
  /// parent any more.
  func close(_ reason: OwnerEndReason) -> Closed? {
    guard word.load(ordering: .relaxed) & Flag.ended == 0 else { return nil }
    var closed = Closed()
    lock.lock()
    var word = word.load(ordering: .relaxed)
    guard word & Flag.ended == 0 || Mutation.endsTwice.isOn, isConcerned(by: reason) else {
      lock.unlock()
      return nil
    }
    word |= Flag.ended | reason.code << Flag.reasonShift
    var hooks: OwnerHookList?
    swap(&hooks, &guarded.hooks)
    if let relations = guarded.relations {
      if case .parentEnded(let parent) = reason { relations.endedParent = parent }
      swap(&closed.parent, &relations.parent)
      closed.children = relations.children.values.compactMap { $0.retained() }
      relations.children = [:]
      if !closed.children.isEmpty {
        relations.closing = closed.children
        word |= Flag.closing
      }
    }
    self.word.store(word, ordering: .releasing)
    let hasMembers = guarded.members.count > 0
    lock.unlock()
    if let hooks { closed.hooks = hooks.close() }
    OwnerIDRegistry.shared.markEnded(id, on: page)
    if hasMembers { LifetimeReaper.reap(self) }
    return closed
  }

  /// Under the lock.
  private func isConcerned(by reason: OwnerEndReason) -> Bool {
    guard case .parentEnded(let parent) = reason else { return true }
    return guarded.relations?.parent?.id == parent
  }

  /// One lifetime that has been closed and whose audience has yet to hear of it.
  struct Ending {
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

  /// Runs the closure once, when the owner ends, on the thread that ends it and outside every lock; at once, on this thread, if it has
  /// ended.
  ///
  /// Hooks run in the order in which they were added, after those of the children; not after those of a child that another thread is just
  /// ending. The closure is released when it has run or is cancelled.
  /// A hook may add and cancel hooks, end owners, and drop the last reference to one.
  /// The owner is not at hand any more, and if it lived on an actor, this may be another thread than the actor's: read what the hook has
  /// captured, and see <doc:OwnersOnActors>.
  /// - Returns: the hook, for those who may want to cancel it. The lifetime keeps it.
  /// - Complexity: amortised constant.
  @discardableResult
  public func onEnd(_ body: @escaping @Sendable (OwnerID) -> Void) -> OwnerHook {
    let list = lock.withLock { () -> OwnerHookList? in
      guard word.load(ordering: .relaxed) & Flag.ended == 0 else { return nil }
      if let hooks = guarded.hooks { return hooks }
      let new = OwnerHookList(seed: id)
      guarded.hooks = new
      return new
    }
    let hook = OwnerHook(body, in: list)
    // The list may have been closed by now; then the owner has ended.
    let isAdded = (list?.append(hook) ?? false) || Mutation.hookMissesTheEnd.isOn
    if !isAdded { HookRun.perform { [id] in hook.run(id) } }
    return hook
  }

  // MARK: Hierarchy

  /// Makes the lifetime end when `parent` ends, instead of its parent until now. Nil makes it independent.
  ///
  /// If the new parent has ended, the lifetime ends before this returns.
  /// - Throws: ``OwnerLifetimeError/parentCycle(_:)`` if `parent` is the lifetime itself or one of its descendants;
  ///   ``OwnerLifetimeError/alreadyEnded(_:)`` if the lifetime has ended; ``OwnerLifetimeError/neverEnds(_:)`` for ``process``. Nothing has
  ///   changed then.
  /// - Complexity: linear in the depth of the tree above `parent`.
  public func setParent(_ parent: OwnerLifetime?) throws(OwnerLifetimeError) {
    guard word.load(ordering: .relaxed) & Flag.neverEnds == 0 else { throw .neverEnds(description) }
    // These may have become the last references. They go outside the lock, because hooks of the user's run when they do.
    var former: OwnerLifetime?
    var ancestors: [OwnerLifetime] = []
    defer {
      ancestors.removeAll()
      Self.release(&former)
    }
    let hasEnded: Bool
    if Mutation.linksWithoutLock.isOn {
      try checkAncestors(of: parent, holding: &ancestors)
      hasEnded = try link(to: parent, &former)
    } else {
      hasEnded = try Self.linking.withLock { () throws(OwnerLifetimeError) in
        try checkAncestors(of: parent, holding: &ancestors)
        return try link(to: parent, &former)
      }
    }
    if let parent, hasEnded { end(.parentEnded(parent.id)) }
  }

  /// A cycle can only come from `setParent`: one thread at a time looks for it and links.
  private static let linking = Lock()

  /// - Returns: whether the parent turned out to have ended.
  private func link(to parent: OwnerLifetime?, _ former: inout OwnerLifetime?) throws(OwnerLifetimeError) -> Bool {
    let isChanged = lock.withLock {
      guard word.load(ordering: .relaxed) & Flag.ended == 0 else { return false }
      let relations = guarded.makeRelations()
      former = relations.parent
      relations.parent = parent
      return true
    }
    guard isChanged else { throw .alreadyEnded(description) }
    former?.removeChild(id)
    guard let parent else { return false }
    guard parent.insertChild(self) else { return true }
    // Ended meanwhile, perhaps before it was there to be removed. If its tree is still being closed, whoever does that removes it then.
    if word.load(ordering: .acquiring) & (Flag.ended | Flag.closing) == Flag.ended { parent.removeChild(id) }
    return false
  }

  /// - Parameter ancestors: what was looked at, for the caller to let go of.
  func checkAncestors(of parent: OwnerLifetime?, holding ancestors: inout [OwnerLifetime]) throws(OwnerLifetimeError) {
    var path = [description]
    var ancestor = parent
    while let current = ancestor {
      ancestors.append(current)
      path.append(current.description)
      if current === self { throw .parentCycle(path) }
      ancestor = current.parent
    }
  }

  private func insertChild(_ child: OwnerLifetime) -> Bool {
    lock.withLock {
      guard word.load(ordering: .relaxed) & Flag.ended == 0 || Mutation.childMissesTheEnd.isOn else { return false }
      let relations = guarded.makeRelations()
      relations.children[child.id] = UnretainedReference(child)
      return true
    }
  }

  private func removeChild(_ id: OwnerID) {
    lock.withLock { guarded.relations?.removeChild(id) }
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
      defer { guarded.relations?.parent = nil }
      return guarded.relations?.parent
    }
    parent?.removeChild(id)
    return parent
  }

  // MARK: Pending work

  /// Has the member told when the owner ends. O(1).
  /// - Returns: false if the owner has ended: the caller does then what the member would do.
  func join(_ member: some LifetimeMember) -> Bool {
    lock.withLock {
      guard word.load(ordering: .relaxed) & Flag.ended == 0 || Mutation.memberMissesTheEnd.isOn else { return false }
      guarded.members.insert(member)
      return true
    }
  }

  /// The member has nothing pending any more. Does nothing if it has left or the reaper has taken it. O(1).
  func leave(_ member: some LifetimeMember) {
    lock.withLock {
      let isReaped = word.load(ordering: .relaxed) & Flag.ended != 0
      guarded.members.remove(member, keepingPlaces: isReaped && !Mutation.memberMovesWhileReaped.isOn)
    }
  }

  /// For the reaper, after the end; see ``MemberList/take(from:limit:into:)``.
  func takeMembers(from start: Int, limit: Int, into taken: inout [any LifetimeMember]) -> Int? {
    lock.withLock {
      let next = guarded.members.take(from: start, limit: limit, into: &taken)
      if next == nil { guarded.members.removeAll() }
      return next
    }
  }

  // MARK: For tests that say memory stays flat

  var hookCapacity: Int { lock.withLock { guarded.hooks }?.capacity ?? 0 }
  var childCount: Int { lock.withLock { guarded.relations?.children.count ?? 0 } }
  var childCapacity: Int { lock.withLock { guarded.relations?.children.capacity ?? 0 } }
  var memberCapacity: Int { lock.withLock { guarded.members.capacity } }

  // MARK: The owner itself

  /// For a lifetime that was just made: its object's end will be noticed by asking.
  func watch(_ liveness: ObjectLiveness) {
    lock.withLock {
      let relations = guarded.makeRelations()
      relations.liveness = liveness
      word.store(word.load(ordering: .relaxed) | Flag.watchesObject, ordering: .releasing)
    }
  }

  /// Asks after the object, and has the lifetime ended if it has gone: in the background, because whoever asks may hold a lock.
  private func objectIsAlive() -> Bool {
    guard lock.withLock({ guarded.relations?.liveness?.isAlive ?? true }) else {
      LifetimeReaper.end(self, .objectDeinitialised)
      return false
    }
    return true
  }

  /// Makes `owner` the object that ``ownerHold`` is about, held weakly, unless another object came first: several
  /// objects may share a token. An object that is deinitialising is not bound.
  /// - Returns: whether `owner` is the one.
  func bind(_ owner: AnyObject) -> Bool {
    if word.load(ordering: .acquiring) & Flag.bound == 0 {
      let isBound = lock.withLock {
        let word = word.load(ordering: .relaxed)
        guard word & Flag.bound == 0 else { return true }
        let hold = OwnerHold.of(owner)
        guard hold.isOfObject else { return false }
        boundHold = hold
        self.word.store(word | Flag.bound, ordering: .releasing)
        return true
      }
      guard isBound else { return false }
    }
    if boundHold.unsafelyUnwrapped.refers(to: owner) { return true }  // there, because it is bound
    if word.load(ordering: .relaxed) & Flag.shared == 0 {
      lock.withLock { word.store(word.load(ordering: .relaxed) | Flag.shared, ordering: .releasing) }
    }
    return false
  }

  /// Whether work of the lifetime may get the object that the hold is about.
  func mayConcern(_ hold: OwnerHold) -> Bool { ownerHold === hold || word.load(ordering: .acquiring) & Flag.shared != 0 }

  /// Who holds the object bound, on behalf of its work; nil before `bind` has returned true.
  var ownerHold: OwnerHold? { word.load(ordering: .acquiring) & Flag.bound == 0 ? nil : boundHold }
}

extension OwnerLifetime: CustomStringConvertible {
  /// For example `owner#42 "screen"`, or `owner#42 (ended)`.
  public var description: String {
    let named = name.map { "\(id) \"\($0)\"" } ?? "\(id)"
    guard let endReason else { return named }
    return "\(named) (ended: \(endReason))"
  }
}
