#if canImport(ObjectiveC)
  import Foundation
  import Synchronization

  /// Key-value observing on behalf of an owner, where there is an Objective-C runtime. The observation ends with the owner or with the
  /// object, whichever goes first.
  extension NSObjectProtocol where Self: NSObject {
    /// Calls the handler with the owner when the value changes, until the owner or this object ends. It keeps neither alive.
    ///
    /// The handler runs on the thread that makes the change. A change that is made while the owner ends calls it or doesn't, by one
    /// decision. Later changes don't. It is skipped while nothing but bodies and handlers of the owner's holds the owner.
    /// - Parameters:
    ///   - keyPath: what is observed; as with Foundation's own `observe`.
    ///   - options: what the changes carry.
    ///   - owner: held weakly, and strongly while the handler runs.
    ///   - changeHandler: gets the owner, which it must not capture. Released when the observation ends.
    /// - Returns: the observation, which need not be kept.
    @discardableResult
    public func observe<Owner: OperationOwner & Sendable, Value>(
      _ keyPath: KeyPath<Self, Value>, options: NSKeyValueObservingOptions = [], owner: Owner,
      changeHandler: @escaping @Sendable (Owner, Self, NSKeyValueObservedChange<Value>) -> Void
    ) -> OwnedKeyValueObservation {
      observe(keyPath, options, owner, owner.lifetimeToken.lifetime, changeHandler)
    }

    /// Calls the handler with the owner when the value changes, until the owner or this object ends. The owner is an object that holds no
    /// token. The observation keeps neither alive.
    ///
    /// The handler runs on the thread that makes the change. A change that is made while the owner ends calls it or doesn't, by one
    /// decision. Later changes don't. It is skipped while nothing but bodies and handlers of the owner's holds the owner.
    /// - Parameters:
    ///   - keyPath: what is observed; as with Foundation's own `observe`.
    ///   - options: what the changes carry.
    ///   - owner: held weakly, and strongly while the handler runs.
    ///   - changeHandler: gets the owner, which it must not capture. Released when the observation ends.
    /// - Returns: the observation, which need not be kept.
    @_disfavoredOverload @discardableResult
    public func observe<Owner: AnyObject & Sendable, Value>(
      _ keyPath: KeyPath<Self, Value>, options: NSKeyValueObservingOptions = [], owner: Owner,
      changeHandler: @escaping @Sendable (Owner, Self, NSKeyValueObservedChange<Value>) -> Void
    ) -> OwnedKeyValueObservation {
      observe(keyPath, options, owner, OwnerLifetime.of(owner as AnyObject), changeHandler)
    }

    private func observe<Owner: AnyObject & Sendable, Value>(
      _ keyPath: KeyPath<Self, Value>, _ options: NSKeyValueObservingOptions, _ owner: Owner, _ lifetime: OwnerLifetime,
      _ handler: @escaping @Sendable (Owner, Self, NSKeyValueObservedChange<Value>) -> Void
    ) -> OwnedKeyValueObservation {
      let observation = OwnedKeyValueObservation(lifetime, OwnerLifetime.ofObject(self))
      guard observation.isValid else { return observation }
      let hold = OwnerHold.of(owner, lifetime)
      let stored = StoredHandler(handler)
      // Foundation's observation has this closure, which keeps ours, which keeps Foundation's: each end breaks the circle.
      let foundations = observe(keyPath, options: options) { object, change in
        guard let handler = stored.value else { return }
        hold.callHandler(if: { observation.isValid }) { owner in handler(unsafeDowncast(owner, to: Owner.self), object, change) }
      }
      observation.begin(foundations) { stored.take() }
      return observation
    }
  }

  /// Key-value observing that leaves by itself. It need not be kept; keep it to be able to call ``invalidate()``.
  public final class OwnedKeyValueObservation: Sendable {
    // The protocol is `OwnedObservation`'s. `isOver` goes from false to true, once, and is asked right before each call of the handler. The
    // owner's lifetime is asked last. Whoever turns `isOver` ends what Foundation has, and releases the handler: on its own thread, or in
    // the background at an end.

    /// What an end ends.
    private struct State {
      var foundations: NSKeyValueObservation?
      var takeHandler: (@Sendable () -> Any?)?
      var endCalls: [LifetimeEndCall] = []
    }

    private let lifetime: OwnerLifetime
    private let objectLifetime: OwnerLifetime
    private let isOver = Atomic<Bool>(false)
    private let state = Locked(State())

    fileprivate init(_ lifetime: OwnerLifetime, _ objectLifetime: OwnerLifetime) {
      self.lifetime = lifetime
      self.objectLifetime = objectLifetime
    }

    /// False once the owner or the observed object has ended, or `invalidate()` was called. The handler doesn't begin any more.
    public var isValid: Bool { !isOver.load(ordering: .acquiring) && objectLifetime.isAlive && lifetime.isAlive }

    /// Ends the observation, and releases the handler. When this returns, the handler doesn't begin any more. A call that is under way goes
    /// on. Any thread, also from inside the handler.
    public func invalidate() { end(inBackground: false) }

    fileprivate func begin(_ foundations: NSKeyValueObservation, _ takeHandler: @escaping @Sendable () -> Any?) {
      let calls = [lifetime, objectLifetime].map { lifetime in
        LifetimeEndCall(lifetime) { [weak self] in self?.end(inBackground: true) }
      }
      state.withLock { $0 = State(foundations: foundations, takeHandler: takeHandler, endCalls: calls) }
      for call in calls where !call.join() { end(inBackground: false) }
      // Ended by the first call of the handler, before any of this was there.
      if isOver.load(ordering: .acquiring) { release(inBackground: false) }
    }

    private func end(inBackground: Bool) {
      if !isOver.exchange(true, ordering: .acquiringAndReleasing) { release(inBackground: inBackground) }
    }

    private func release(inBackground: Bool) {
      var ended = State()
      state.withLock { swap(&ended, &$0) }
      for call in ended.endCalls { call.leave() }
      let handler = ended.takeHandler?()
      guard inBackground else {
        ended.foundations?.invalidate()
        return
      }
      DeferredReleases.add(consume handler)
      // It asks the observed object, which may have been overridden. Foundation's may be used from any thread.
      nonisolated(unsafe) let observation = ended.foundations
      DeferredCalls.add { observation?.invalidate() }
    }
  }

  /// A handler that can be taken away.
  private final class StoredHandler<Handler: Sendable>: Sendable {
    private struct Stored {
      var handler: Handler?
    }

    private let stored: Locked<Stored>

    init(_ handler: Handler) { stored = Locked(Stored(handler: handler)) }

    var value: Handler? { stored.withLock { $0.handler } }

    func take() -> Handler? { stored.withLock { $0.handler.take() } }
  }
#endif
