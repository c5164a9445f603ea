import Foundation

/// What `observe(_:options:changeHandler:)` tells: as in key-value observing, only what the options ask for.
public struct OperationChange<Value> {
  /// With the option `new` (not before the change), or `initial` together with `new`.
  public let newValue: Value?
  /// With the option `old`.
  public let oldValue: Value?
  /// True for the call that comes before the change, with the option `prior`.
  public let isPrior: Bool
}

extension OperationChange: Sendable where Value: Sendable {}

/// Keeps an observation going. Its `invalidate()` or its deinit ends it; so does the end of the operation, after its last change.
///
/// One that was made for an owner goes on without this, until the owner ends.
public final class OperationObservation: Sendable {
  /// What an observation asks for. They mean what they mean in key-value observing.
  public struct Options: OptionSet, Sendable {
    /// A bit for each option.
    public let rawValue: Int
    /// Makes a set of options from their bits.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// Changes carry the new value.
    public static let new = Options(rawValue: 1)
    /// Changes carry the value before.
    public static let old = Options(rawValue: 2)
    /// The handler is called once at the beginning, with the value as it is (if `new` is given).
    public static let initial = Options(rawValue: 4)
    /// The handler is called before each change too, with `isPrior` true and (if `old` is given) the value before.
    ///
    /// An operation that is observed so becomes ready last of all: after those who wait for its last dependency, and that one's completion
    /// block, have been told.
    ///
    /// "Before" is before anybody can see the change. The exception is a cancellation by the end of the owner, which happens at once for
    /// everybody: the call comes right before the other one.
    ///
    /// The handler may change the operation in this call. What that changes of the same value is told when it has changed, and not
    /// beforehand once more: this call was it.
    public static let prior = Options(rawValue: 8)
  }

  private let registration: any ObserverRegistration
  private let endsWithDeinit: Bool

  init(_ registration: any ObserverRegistration, endsWithDeinit: Bool = true) {
    self.registration = registration
    self.endsWithDeinit = endsWithDeinit
  }

  deinit { if endsWithDeinit { registration.end() } }

  /// Ends the observation and releases the handler. A call that is under way on another thread is not waited for. Any thread.
  public func invalidate() { registration.end() }
}

extension OwnedOperation {
  /// Calls the handler when the value changes: key-value observing, on every platform.
  ///
  /// For `isReady`, `isExecuting`, `isFinished`, `isCancelled`, `state`, `dependencies` and `queuePriority`. The first four are views of
  /// the operation's own state; a condition that a subclass adds to `isReady` is not part of it.
  ///
  /// The handler runs on the thread that makes the change. For the end of an owner that is a background thread. When an operation becomes
  /// ready because another has finished, that has finished in every sense: the handler may wait for its owner.
  ///
  /// Handlers run in the order of the changes, and never inside one another. A change made by a handler, or by another thread meanwhile, is
  /// delivered next, by the thread that is delivering. No lock is held. The operation keeps the handler until the observation ends, which
  /// it does by itself after `isFinished`. The observation doesn't keep the operation.
  /// - Returns: the observation, to be kept for as long as it is wanted.
  public final func observe<Value>(
    _ keyPath: KeyPath<OwnedOperation, Value>, options: OperationObservation.Options = [.new],
    changeHandler: @escaping @Sendable (OwnedOperation, OperationChange<Value>) -> Void
  ) -> OperationObservation {
    let registration = HandlerRegistration(ObservedKeys(keyPath), options, changeHandler)
    register(registration, wantsInitial: options.contains(.initial))
    return OperationObservation(registration)
  }

  /// The current state, then every state the operation gets into; ends after `finished`, or when the operation is released. A stream for
  /// each call, which doesn't keep the operation. States that follow each other faster than they are read are kept.
  public final var states: AsyncStream<OperationState> {
    let (stream, continuation) = AsyncStream.makeStream(of: OperationState.self)
    let registration = StateStreamRegistration(continuation)
    continuation.onTermination = { [weak registration] _ in registration?.end() }
    register(registration, wantsInitial: true)
    return stream
  }

  final func register(_ registration: any ObserverRegistration, wantsInitial: Bool) {
    lock.withLock {
      let extras = makeExtras()
      let observers = extras.observers ?? ObserverList()
      extras.observers = observers
      // From here on every change is recorded, under the lock that we hold. A change made before is in the word.
      var bits: StateWord.Bits = .isObserved
      if registration.options.contains(.prior) { bits.insert(.isObservedBeforehand) }
      let before = word.bitwiseOr(bits.rawValue, ordering: .acquiringAndReleasing).newValue
      let dependencies = registration.keys.contains(.dependencies) ? dependencyCell?.operations ?? [] : []
      observers.add(registration, wantsInitial ? ObservedValues(StateWord(rawValue: before), dependencies) : nil)
    }
    deliverChanges()
  }

  // MARK: Delivery

  /// Delivers what has been recorded. If another thread, or a caller of ours, is delivering, that one goes on with it.
  final func deliverChanges() {
    var isFirst = true
    while true {
      var batch: ObserverList.Batch?
      var ended: [any ObserverRegistration] = []
      lock.withLock {
        guard let observers = extras?.observers else { return }
        batch = isFirst ? observers.beginDelivery() : observers.continueDelivery()
        if batch == nil, !observers.isDelivering, load().isFinished { ended = observers.takeAll() }
      }
      for registration in ended { registration.end() }
      guard let batch else { return }
      batch.deliver(self)
      isFirst = false
    }
  }

  /// Tells those who want to hear beforehand. Outside locks.
  final func announceChange(of keys: ObservedKeys, from current: StateWord) {
    let registrations = lock.withLock { extras?.observers?.registrations ?? [] }
    PriorCall(self, keys, registrations, ObservedValues(current, [])).perform()
  }

  /// - Returns: the key, if anybody wanted to hear beforehand.
  final func announceDependencyChange(from former: [Operation]) -> ObservedKeys {
    guard load().contains(.isObservedBeforehand) else { return [] }
    _ = PriorCall.tellRest(of: self, .dependencies)
    guard !PriorCall.keys(of: self).contains(.dependencies) else { return .dependencies }
    let registrations = lock.withLock { extras?.observers?.registrations ?? [] }
    PriorCall(self, .dependencies, registrations, ObservedValues(load(), former)).perform()
    return .dependencies
  }
}
