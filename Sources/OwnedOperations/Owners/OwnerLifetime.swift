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
/// A lifetime without a token is a scope to end by hand. It also ends when the last reference to it goes, since nobody could end it then.
///
/// All members may be used from any thread, also from inside hooks. They take constant time unless they say otherwise.
public final class OwnerLifetime: RelayLinked, Sendable {
  // Protocol
  //
  // `word` says whether the lifetime is alive. It is changed under `lock` only, but for a hint, and read without it: alive ──▶ ended, once.
  //
  // - The end takes effect when `ended` is stored (releasing). A start of work reads the word (acquiring) after it has claimed the
  //   work and before it runs the body: that load decides. If it reads alive, the start was under way before the end.
  // - Whoever turns the word owns the end: it takes `hooks` and the children out under the same lock. So an `onEnd` or a new child comes
  //   before, and is taken along, or after, and sees the end. Two ends can't both win.
  // - The locks of two lifetimes are never held together, and no code of the user's runs under one. (`linking` may be held around one.)
  // - A parent knows its children unretained; a child takes itself out at its end, when everything below it has ended.
  // - An end closes the whole tree before it tells anybody. Whoever turned the word of a lifetime with children sets `Flag.closing` along
  //   with `ended`, and keeps the children in `relations.closing`. It takes both back when all below has ended.
  // - An end that finds a lifetime `closing`, its own or one below, doesn't wait. It closes the children itself, and returns when all below
  //   has ended. Whoever turns a child's word runs that child's hooks; nobody waits for those of others.
  // - `relations.parent`, under the child's own lock, says whose child it is. A parent's end closes a child only if it says so still.
  // - `setParent` writes `relations.parent` first, then changes the two lists, then looks whether the child has ended, and takes it out
  //   again.
  // - The members (pending work) stay in place at the end; the reaper takes them out bit by bit, see `LifetimeReaper`.

  /// Names the owner for the life of the process; never reused.
  public let id: OwnerID

  // Here, and not in memory of their own, because every owner has them. `lock` makes their accesses exclusive.
  @exclusivity(unchecked) nonisolated(unsafe) var guarded = Guarded()
  /// Written once, under `lock`; may be read without it once `Flag.bound` is seen.
  @exclusivity(unchecked) nonisolated(unsafe) var boundHold: OwnerHold?

  // Last, so that they are never in one cache line with the count of references, which workers would wait for.
  let word: Atomic<UInt32>
  let lock: Lock

  struct Guarded {
    var hooks: OwnerHookList?
    var members = MemberList()
    var relations: Relations?
    /// The address of the identifier's page until the end has been marked there, which may be when the page goes; then a link of the
    /// reaper's relay. From the end on not the lock's, but of whoever has turned the word, and then the relay's.
    fileprivate(set) var pageOrNext: UnsafeMutableRawPointer?

    mutating func makeRelations() -> Relations {
      let made = relations ?? Relations()
      relations = made
      return made
    }
  }

  /// What few lifetimes have, kept out of the memory of the many.
  final class Relations {
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

  enum Flag {
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
    /// From the beginning: see `isEndAnnounced`.
    static let announced: UInt32 = 128
    /// Has had several pieces of work pending at a time. A hint; set without the lock.
    static let hadSeveral: UInt32 = 256
    /// For tests, and set without the lock: the reaper is late.
    static let reapedLate: UInt32 = 512
    static let reasonShift: UInt32 = 16
  }

  /// Makes a lifetime that is alive, unless its parent has ended.
  /// - Parameters:
  ///   - name: shown in descriptions and error messages.
  ///   - parent: when it ends, so does this one. A child of a parent that has ended is born ended, and its ``endReason`` says so.
  public convenience init(name: String? = nil, parent: OwnerLifetime? = nil) {
    self.init(name: name, parent: parent, flags: 0)
  }

  /// - Parameter flags: those that say what kind of lifetime it is, see `Flag`.
  init(name: String? = nil, parent: OwnerLifetime? = nil, flags: UInt32) {
    let (id, page) = OwnerIDRegistry.shared.issue()
    self.id = id
    guarded.pageOrNext = page.address
    word = Atomic(flags)
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
  /// It is alive as long as the process is. To call ``end()`` on it is a programming error, which stops the process. ``setParent(_:)``
  /// throws. Members, children and hooks come and go with their own ends. The memory of those that have gone is given back.
  public static let process = OwnerLifetime(name: "process", flags: Flag.neverEnds | Flag.announced)

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

  /// Whether somebody ends it when its owner goes, a token or a hook, or it never ends. Others are over with their last reference: who
  /// keeps one of those without need keeps it from ending.
  var isEndAnnounced: Bool { word.load(ordering: .relaxed) & Flag.announced != 0 }

  /// Whether it is no more than memory to who lets go of the last reference: somebody else ends it, and nothing hangs on it as on any
  /// object.
  var isOnlyMemory: Bool {
    #if canImport(ObjectiveC)
      false  // who knows what is associated with it
    #else
      isEndAnnounced && !DeinitRegistry.mayKnow(self)
    #endif
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
        if newValue {
          _ = word.bitwiseOr(Flag.postsNotification, ordering: .releasing)
        } else {
          _ = word.bitwiseAnd(~Flag.postsNotification, ordering: .releasing)
        }
      }
    }
  }

  /// Until the end has been marked there.
  var page: Borrowed<OwnerIDPage>? { guarded.pageOrNext.map { Borrowed(address: $0) } }

  /// From then on.
  var nextInRelay: UnsafeMutableRawPointer? {
    get { guarded.pageOrNext }
    set { guarded.pageOrNext = newValue }
  }

  // MARK: Hooks

  /// Runs the closure once, when the owner ends, on the thread that ends it and outside every lock. If it has ended, runs it at once, on
  /// this thread.
  ///
  /// Hooks run in the order in which they were added, after those of the children. They don't wait for those of a child that another thread
  /// is just ending. The closure is released when it has run or is cancelled. A hook may add and cancel hooks, end owners, and drop the
  /// last reference to one. The owner is not at hand any more, and if it lived on an actor, this may be another thread than the actor's.
  /// Read what the hook has captured, and see <doc:OwnersOnActors>.
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

}

extension OwnerLifetime: CustomStringConvertible {
  /// For example `owner#42 "screen"`, or `owner#42 (ended)`.
  public var description: String {
    let named = name.map { "\(id) \"\($0)\"" } ?? "\(id)"
    guard let endReason else { return named }
    return "\(named) (ended: \(endReason))"
  }
}
