extension OwnerLifetime {
  /// The lifetime of any object, which needs no stored property for it. It ends when the object deinitialises, before its deinit body.
  ///
  /// ```swift
  /// final class Connection: Sendable {}
  /// let connection = Connection()
  /// OwnerLifetime.of(connection).onEnd { id in print("\(id) has gone") }
  /// ```
  ///
  /// The same object gives the same lifetime every time. If it is an ``OperationOwner``, that is the lifetime of its token. The lifetime
  /// of an object that is deinitialising already has ended, and its ``endReason`` says so.
  ///
  /// Where ``DeinitHook/mechanism`` is `weakReference`, and for the rare class that can't be hooked, nobody tells the lifetime that its
  /// object has gone. ``isAlive`` finds out when it is asked. So work of dead objects is skipped all the same, but hooks run late, and
  /// captures are released late.
  ///
  /// Constant time; a token costs less.
  @_disfavoredOverload
  public static func of(_ object: AnyObject) -> OwnerLifetime {
    of(object, in: .shared)
  }

  static func of(_ object: AnyObject, in registry: DeinitRegistry) -> OwnerLifetime {
    if let owner = object as? any OperationOwner { return owner.lifetimeToken.lifetime }
    return ofObject(object, in: registry)
  }

  /// The lifetime of the object itself, whether or not it holds a token. It ends with the object's deinit hooks, before the deinit body,
  /// and not by hand.
  static func ofObject(_ object: AnyObject, in registry: DeinitRegistry = .shared) -> OwnerLifetime {
    if let attachment = registry.attachment(of: object, create: { AttachedLifetime($0) }) as? AttachedLifetime {
      return attachment.lifetime
    }
    let ended = OwnerLifetime()
    ended.end(.objectDeinitialised)
    return ended
  }
}

/// What an object carries that is an owner without a token.
private final class AttachedLifetime: DeinitAttachment {
  let lifetime: OwnerLifetime

  init(_ liveness: ObjectLiveness?) {
    lifetime = OwnerLifetime(flags: liveness == nil ? OwnerLifetime.Flag.announced : 0)
    if let liveness { lifetime.watch(liveness) }
  }

  func attachedObjectDidEnd() {
    lifetime.end(.objectDeinitialised)
  }
}
