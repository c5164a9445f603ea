import Foundation

/// Observing an operation on behalf of an owner: the observation leaves with the owner, or with the operation, whichever goes first.
extension OwnedOperation {
  /// Calls the handler with the owner when the value changes, until the owner ends or the operation has finished.
  ///
  /// ```swift
  /// final class Screen: OperationOwner, Sendable {
  ///   let lifetimeToken = OwnerLifetime.Token(name: "screen")
  ///   func show(_ state: OperationState) { print(state) }
  /// }
  ///
  /// let screen = Screen()
  /// let operation = OwnedBlockOperation(lifetime: .process) {}
  /// operation.observe(\.state, owner: screen) { screen, operation, change in screen.show(operation.state) }
  /// operation.start()
  /// ```
  ///
  /// Key paths, options, threads and order are those of ``observe(_:options:changeHandler:)``. A change that is made while the owner ends
  /// calls the handler or doesn't, by one decision. Later changes don't. The handler is skipped while nothing but bodies and handlers of
  /// the owner's holds the owner.
  /// - Parameters:
  ///   - keyPath: what is observed.
  ///   - options: what the changes carry.
  ///   - owner: held weakly, and strongly while the handler runs. Need not be the operation's.
  ///   - changeHandler: gets the owner, which it must not capture. Released when the observation ends; at the owner's end in the
  ///     background.
  /// - Returns: the observation. It goes on even if nobody keeps it.
  @discardableResult
  public final func observe<Owner: OperationOwner & Sendable, Value>(
    _ keyPath: KeyPath<OwnedOperation, Value>, options: OperationObservation.Options = [.new], owner: Owner,
    changeHandler: @escaping @Sendable (Owner, OwnedOperation, OperationChange<Value>) -> Void
  ) -> OperationObservation {
    observe(keyPath, options, owner, owner.lifetimeToken.lifetime, changeHandler)
  }

  /// Calls the handler with the owner when the value changes, until the owner ends or the operation has finished. The owner is an object
  /// that holds no token.
  ///
  /// Key paths, options, threads and order are those of ``observe(_:options:changeHandler:)``. A change that is made while the object ends
  /// calls the handler or doesn't, by one decision. Later changes don't.
  /// - Parameters:
  ///   - keyPath: what is observed.
  ///   - options: what the changes carry.
  ///   - owner: held weakly, and strongly while the handler runs, which is skipped while nothing but bodies and handlers of the owner's
  ///     holds
  ///     it. Need not be the operation's.
  ///   - changeHandler: gets the owner, which it must not capture. Released when the observation ends; at the owner's end in the
  ///     background.
  /// - Returns: the observation. It goes on even if nobody keeps it.
  @_disfavoredOverload @discardableResult
  public final func observe<Owner: AnyObject & Sendable, Value>(
    _ keyPath: KeyPath<OwnedOperation, Value>, options: OperationObservation.Options = [.new], owner: Owner,
    changeHandler: @escaping @Sendable (Owner, OwnedOperation, OperationChange<Value>) -> Void
  ) -> OperationObservation {
    observe(keyPath, options, owner, OwnerLifetime.of(owner as AnyObject), changeHandler)
  }

  /// Calls the handler when the value changes, until the lifetime ends or the operation has finished.
  ///
  /// Key paths, options, threads and order are those of ``observe(_:options:changeHandler:)``. A change that is made while the lifetime
  /// ends calls the handler or doesn't, by one decision. Later changes don't.
  /// - Parameters:
  ///   - keyPath: what is observed.
  ///   - options: what the changes carry.
  ///   - lifetime: its end ends the observation. Need not be the operation's. Its owner is not held.
  ///   - changeHandler: must not capture the owner. Released when the observation ends; at the lifetime's end in the background.
  /// - Returns: the observation. It goes on even if nobody keeps it.
  @discardableResult
  public final func observe<Value>(
    _ keyPath: KeyPath<OwnedOperation, Value>, options: OperationObservation.Options = [.new], lifetime: OwnerLifetime,
    changeHandler: @escaping @Sendable (OwnedOperation, OperationChange<Value>) -> Void
  ) -> OperationObservation {
    observe(keyPath, options, lifetime) { operation, change in
      if lifetime.isAlive { changeHandler(operation, change) }
    }
  }

  private func observe<Owner: AnyObject & Sendable, Value>(
    _ keyPath: KeyPath<OwnedOperation, Value>, _ options: OperationObservation.Options, _ owner: Owner, _ lifetime: OwnerLifetime,
    _ handler: @escaping @Sendable (Owner, OwnedOperation, OperationChange<Value>) -> Void
  ) -> OperationObservation {
    let hold = OwnerHold.of(owner, lifetime)
    return observe(keyPath, options, lifetime) { operation, change in
      // The load of the lifetime comes last, and decides.
      hold.callHandler(if: { lifetime.isAlive }) { owner in handler(unsafeDowncast(owner, to: Owner.self), operation, change) }
    }
  }

  private func observe<Value>(
    _ keyPath: KeyPath<OwnedOperation, Value>, _ options: OperationObservation.Options, _ lifetime: OwnerLifetime,
    _ handler: @escaping HandlerRegistration<Value>.Handler
  ) -> OperationObservation {
    let keeper = EndCallKeeper()
    let registration = HandlerRegistration(ObservedKeys(keyPath), options) { operation, change in
      withExtendedLifetime(keeper) { handler(operation, change) }
    }
    // The registration keeps its handler, that the keeper, and that the call: it leaves when the registration ends.
    let endCall = LifetimeEndCall(lifetime) { [weak registration] in registration?.endInBackground() }
    keeper.endCall.withLock { $0 = endCall }
    if endCall.join() {
      register(registration, wantsInitial: options.contains(.initial))
    } else {
      registration.end()
    }
    return OperationObservation(registration, endsWithDeinit: false)
  }
}

private final class EndCallKeeper: Sendable {
  let endCall = Locked<LifetimeEndCall?>(nil)
}
