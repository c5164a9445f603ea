import Synchronization

extension OwnerLifetime {
  /// Makes the lifetime end when `parent` ends, instead of its parent until now. Nil makes it independent.
  ///
  /// If the new parent has ended, the lifetime ends before this returns.
  /// - Throws: ``OwnerLifetimeError/parentCycle(_:)`` if `parent` is the lifetime itself or one of its descendants.
  ///   ``OwnerLifetimeError/alreadyEnded(_:)`` if the lifetime has ended. ``OwnerLifetimeError/neverEnds(_:)`` for ``process``. Nothing has
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
    let hasEnded = word.load(ordering: .acquiring) & (Flag.ended | Flag.closing) == Flag.ended
    if hasEnded, !Mutation.linkMissesItsOwnEnd.isOn { parent.removeChild(id) }
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

  func insertChild(_ child: OwnerLifetime) -> Bool {
    lock.withLock {
      guard word.load(ordering: .relaxed) & Flag.ended == 0 || Mutation.childMissesTheEnd.isOn else { return false }
      let relations = guarded.makeRelations()
      relations.children[child.id] = UnretainedReference(child)
      return true
    }
  }

  func removeChild(_ id: OwnerID) {
    lock.withLock { guarded.relations?.removeChild(id) }
  }

  /// Lets go of a parent. Where nobody else holds it, that ends it and lets go of its own parent, and so on. Here that is done one after
  /// the other, instead of one inside the other.
  static func release(_ ancestor: inout OwnerLifetime?) {
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
}
