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
    guard var closed = close(reason) else { return endWhatIsBelow() }
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
    var hooks: OwnerHookList?
    let takesHooksEarly = if case .parentEnded = reason { Mutation.hookIsLostToTheParent.isOn } else { false }
    if takesHooksEarly { lock.withLock { swap(&hooks, &guarded.hooks) } }
    lock.lock()
    var word = word.load(ordering: .relaxed)
    guard word & Flag.ended == 0 || Mutation.endsTwice.isOn, isConcerned(by: reason) else {
      lock.unlock()
      return nil
    }
    word |= Flag.ended | reason.code << Flag.reasonShift
    if !takesHooksEarly { swap(&hooks, &guarded.hooks) }
    if Mutation.hookRunsBeforeTheEnd.isOn, let hooks { closed.hooks = hooks.close() }
    if let relations = guarded.relations {
      if case .parentEnded(let parent) = reason { relations.endedParent = parent }
      swap(&closed.parent, &relations.parent)
      closed.children = relations.children.values.compactMap {
        Mutation.dyingChildIsHeld.isOn ? Borrowed(address: $0.address).object : $0.retained()
      }
      relations.children = [:]
      if !closed.children.isEmpty {
        relations.closing = closed.children
        word |= Flag.closing
      }
    }
    self.word.store(word, ordering: .releasing)
    let (hasMembers, pending) = (guarded.members.count > 0, guarded.members.pending)
    if Mutation.hooksRunUnderTheLock.isOn, let hooks { for hook in hooks.close() { hook.run(id) } }
    lock.unlock()
    if let hooks, !Mutation.hookRunsBeforeTheEnd.isOn { closed.hooks = hooks.close() }
    let isLittle = hasMembers && pending != .several
    let isRecent = isLittle && LifetimeReaper.mayTellAtOnce && page.with { $0.isRecent }
    OwnerIDRegistry.shared.markEnded(id, on: page)  // the page may go now
    if hasMembers, !(isRecent && LifetimeReaper.tellsAtOnce(self)) { LifetimeReaper.reap(self, hasHaste: pending != .none) }
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
