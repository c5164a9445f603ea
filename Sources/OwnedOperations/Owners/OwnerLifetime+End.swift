import Foundation
import Synchronization

extension OwnerLifetime {
  /// Ends the owner, and its children before its own hooks. Does nothing if it has ended.
  ///
  /// When this returns, `isAlive` is false here and below, whichever thread ended what. All pending work counts as cancelled, and the hooks
  /// have run, on this thread. Pending work is cleaned up in the background.
  ///
  /// There are two exceptions, about hooks only:
  /// - Another thread may end this owner, one below or one above at the same time. It runs the hooks of what it ends, and this call doesn't
  ///   wait for them.
  /// - Ends may be nested in hooks. The hooks of those more than 32 deep run before the outermost end returns, so that a long line of
  ///   owners doesn't overflow the stack.
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
    switch close(reason) {
    case .notTurned: endWhatIsBelow()
    case .turned: break
    case .turnedWith(var closed): end(reason, &closed)
    }
  }

  @inline(never)  // most have nothing of it
  private func end(_ reason: OwnerEndReason, _ closed: inout Closed) {
    if !closed.children.isEmpty {
      let endings = closeTree(from: closed, reason)
      closed.parent?.removeChild(id)
      HookRun.perform { for ending in endings.reversed() { ending.tell() } }
    } else {
      if !Mutation.endedChildStays.isOn { closed.parent?.removeChild(id) }
      if !closed.hooks.isEmpty || postsDidEndNotification {
        let ending = Ending(self, reason, closed)
        HookRun.perform { ending.tell() }
      }
    }
    if closed.parent != nil { Self.release(&closed.parent) }
  }

  /// Another end was first, and may not be through with the tree.
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
        switch child.close(.parentEnded(parent)) {
        case .notTurned: children = child.closingChildren
        case .turned: children = []
        case .turnedWith(let closed):
          endings.append(Ending(child, .parentEnded(parent), closed))
          children = closed.children
          if !children.isEmpty { closing.append(child) }
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
      word.bitwiseAnd(~Flag.closing, ordering: .releasing)
    }
  }

  /// What an end takes out of a lifetime that has any of it.
  struct Closed {
    var hooks: [OwnerHook] = []
    var parent: OwnerLifetime?
    var children: [OwnerLifetime] = []
  }

  enum Closing {
    /// Another end has, or it is the end of a parent who is not the parent any more.
    case notTurned
    /// There is nothing else to deal with.
    case turned
    case turnedWith(Closed)
  }

  /// Turns the word and takes out what the end is to deal with.
  func close(_ reason: OwnerEndReason) -> Closing {
    // An end finds little of what it touches in the caches, and would wait for each at the next atomic operation.
    Prefetch.toWrite(Borrowed(self).address)
    let early = word.load(ordering: .relaxed)
    guard early & Flag.ended == 0 else {
      lock.withLock {}  // the end that was first is through with the identifier
      return .notTurned
    }
    if early & Flag.hadSeveral != 0 { LifetimeReaper.prefetch() }
    var hooks: OwnerHookList?
    let takesHooksEarly = if case .parentEnded = reason { Mutation.hookIsLostToTheParent.isOn } else { false }
    if takesHooksEarly { lock.withLock { swap(&hooks, &guarded.hooks) } }
    lock.lock()
    let former = word.load(ordering: .relaxed)
    guard former & Flag.ended == 0 || Mutation.endsTwice.isOn, isConcerned(by: reason) else {
      lock.unlock()
      return .notTurned
    }
    let page = page
    Prefetch.toWrite(page?.address)
    var flags = Flag.ended | reason.code << Flag.reasonShift
    if !takesHooksEarly { swap(&hooks, &guarded.hooks) }
    let earlyHooks = Mutation.hookRunsBeforeTheEnd.isOn ? hooks?.close() : nil
    var related = guarded.relations.map { take(from: $0, reason) }
    if !(related?.children.isEmpty ?? true) { flags |= Flag.closing }
    let isRecent = LifetimeReaper.mayTellAtOnce && page?.with { $0.isRecent } ?? false
    word.bitwiseOr(flags, ordering: .releasing)
    // In the same hold of the lock: for who has had that since, both have ended.
    if !Mutation.identifierOutlivesTheEnd.isOn { OwnerIDRegistry.markEnded(id, on: page) }  // the page may go now
    // Who is awake needs no reason to be woken. To ask the members would cost more than all the rest.
    let isLeftToTheReaper = former & Flag.hadSeveral != 0 && reason != .released && LifetimeReaper.isAwake
    let (hasMembers, pending) = isLeftToTheReaper ? (true, .several) : (guarded.members.count > 0, guarded.members.pending)
    if Mutation.hooksRunUnderTheLock.isOn, let hooks { for hook in hooks.close() { hook.run(id) } }
    lock.unlock()
    if related == nil, hooks != nil || former & Flag.postsNotification != 0 { related = Closed() }
    if let hooks { related?.hooks = earlyHooks ?? hooks.close() }
    if Mutation.identifierOutlivesTheEnd.isOn { OwnerIDRegistry.markEnded(id, on: page) }
    let mayTellAtOnce = isRecent && pending != .several
    if hasMembers, !(mayTellAtOnce && LifetimeReaper.tellsAtOnce(self)) { LifetimeReaper.reap(self, hasHaste: pending != .none) }
    return related.map { .turnedWith($0) } ?? .turned
  }

  /// Under the lock.
  @inline(never)  // most have none
  private func take(from relations: Relations, _ reason: OwnerEndReason) -> Closed {
    var closed = Closed()
    if case .parentEnded(let parent) = reason { relations.endedParent = parent }
    swap(&closed.parent, &relations.parent)
    closed.children = relations.children.values.compactMap {
      Mutation.dyingChildIsHeld.isOn ? Borrowed(address: $0.address).object : $0.retained()
    }
    relations.children = [:]
    if !closed.children.isEmpty { relations.closing = closed.children }
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
}
