import Foundation
import Synchronization

/// The key paths that can be observed.
struct ObservedKeys: OptionSet, Sendable {
  let rawValue: UInt8

  static let isReady = ObservedKeys(rawValue: 1)
  static let isExecuting = ObservedKeys(rawValue: 2)
  static let isFinished = ObservedKeys(rawValue: 4)
  static let isCancelled = ObservedKeys(rawValue: 8)
  static let state = ObservedKeys(rawValue: 16)
  static let queuePriority = ObservedKeys(rawValue: 32)
  static let dependencies = ObservedKeys(rawValue: 64)

  init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Empty for a key path that never changes.
  init(_ keyPath: PartialKeyPath<OwnedOperation>) {
    switch keyPath {
    case \OwnedOperation.isReady: self = .isReady
    case \OwnedOperation.isExecuting: self = .isExecuting
    case \OwnedOperation.isFinished: self = .isFinished
    case \OwnedOperation.isCancelled: self = .isCancelled
    case \OwnedOperation.state: self = .state
    case \OwnedOperation.queuePriority: self = .queuePriority
    case \OwnedOperation.dependencies: self = .dependencies
    default: self = []
    }
  }

  /// What an exchange of the word changes for observers.
  init(changedFrom old: StateWord, to new: StateWord) {
    self = []
    if old.isReady != new.isReady { insert(.isReady) }
    if (old.phase == .executing) != (new.phase == .executing) { insert(.isExecuting) }
    if old.isFinished != new.isFinished { insert(.isFinished) }
    if old.isCancelled != new.isCancelled { insert(.isCancelled) }
    if old.state != new.state { insert(.state) }
    if old.priority != new.priority { insert(.queuePriority) }
  }
}

/// All that can be observed, at one moment.
struct ObservedValues: Sendable {
  let word: StateWord
  let dependencies: [Operation]

  init(_ word: StateWord, _ dependencies: [Operation]) {
    self.word = word
    self.dependencies = dependencies
  }

  func value<Value>(of key: ObservedKeys) -> Value? {
    let value: Any? =
      switch key {
      case .isReady: word.isReady
      case .isExecuting: word.phase == .executing
      case .isFinished: word.isFinished
      case .isCancelled: word.isCancelled
      case .state: word.state
      case .queuePriority: word.priority
      case .dependencies: dependencies
      default: nil
      }
    return value as? Value
  }
}

/// The observers of one operation, and the changes they have yet to hear of. Guarded by the operation's lock.
///
/// One thread at a time delivers, in the order of the list, outside the lock. What is recorded meanwhile it delivers next.
final class ObserverList {
  struct Entry {
    let number: UInt64
    let old: ObservedValues
    let new: ObservedValues
    let keys: ObservedKeys
    /// Those who want to hear beforehand have heard of these.
    let announced: ObservedKeys
    /// For the first call to one registration.
    var initial: (any ObserverRegistration)?
  }

  struct Listed {
    let registration: any ObserverRegistration
    /// The first change it is to hear of.
    let firstNumber: UInt64

    func isMeant(by entry: Entry) -> Bool {
      entry.number >= firstNumber && !registration.keys.isDisjoint(with: entry.keys)
    }
  }

  struct Batch {
    let entries: [Entry]
    let listed: [Listed]

    func deliver(_ operation: OwnedOperation) {
      for entry in entries {
        if let registration = entry.initial {
          registration.deliverInitial(operation, entry.new)
          continue
        }
        for observer in listed where observer.isMeant(by: entry) { observer.registration.deliver(operation, entry) }
      }
    }
  }

  private(set) var listed: [Listed] = []
  private var entries: [Entry] = []
  private var nextNumber: UInt64 = 0
  private(set) var isDelivering = false
  private(set) var observesDependencies = false
  /// How many registrations there are when those that have ended are taken out.
  private var nextSweep = ObserverList.leastSweep
  private static let leastSweep = 4

  var registrations: [any ObserverRegistration] { listed.map(\.registration) }

  func add(_ registration: any ObserverRegistration, _ initial: ObservedValues?) {
    if listed.count >= nextSweep { sweep() }
    listed.append(Listed(registration: registration, firstNumber: nextNumber))
    if registration.keys.contains(.dependencies) { observesDependencies = true }
    if let initial {
      entries.append(Entry(number: nextNumber, old: initial, new: initial, keys: [], announced: [], initial: registration))
    }
  }

  /// Takes out those that have ended. The next time is when twice as many are there as were left. That keeps `add` amortised O(1), and the
  /// list never much longer than twice what it was when most observed.
  private func sweep() {
    listed.removeAll { $0.registration.hasEnded }
    nextSweep = max(Self.leastSweep, listed.count * 2)
  }

  func record(from old: StateWord, to new: StateWord, announced: ObservedKeys) {
    let keys = ObservedKeys(changedFrom: old, to: new)
    guard !keys.isEmpty else { return }
    record(ObservedValues(old, []), ObservedValues(new, []), keys, announced)
  }

  func record(dependenciesFrom old: [Operation], to new: [Operation], announced: ObservedKeys) {
    record(ObservedValues(.initial, old), ObservedValues(.initial, new), .dependencies, announced)
  }

  private func record(_ old: ObservedValues, _ new: ObservedValues, _ keys: ObservedKeys, _ announced: ObservedKeys) {
    entries.append(Entry(number: nextNumber, old: old, new: new, keys: keys, announced: announced, initial: nil))
    nextNumber += 1
  }

  func beginDelivery() -> Batch? { isDelivering ? nil : continueDelivery() }

  /// The next changes; nil at the end.
  func continueDelivery() -> Batch? {
    isDelivering = !entries.isEmpty
    guard isDelivering else { return nil }
    defer { entries = [] }
    return Batch(entries: entries, listed: listed)
  }

  func takeAll() -> [any ObserverRegistration] {
    defer { listed = [] }
    return registrations
  }

  /// In the operation's deinit.
  func endAll() {
    for registration in takeAll() { registration.end() }
  }
}

/// One observer.
protocol ObserverRegistration: AnyObject, Sendable {
  var keys: ObservedKeys { get }
  var options: OperationObservation.Options { get }
  var hasEnded: Bool { get }

  func deliverInitial(_ operation: OwnedOperation, _ values: ObservedValues)
  func deliverPrior(_ operation: OwnedOperation, _ values: ObservedValues)
  func deliver(_ operation: OwnedOperation, _ entry: ObserverList.Entry)

  /// Any thread, more than once.
  func end()
}

final class HandlerRegistration<Value>: ObserverRegistration {
  typealias Handler = @Sendable (OwnedOperation, OperationChange<Value>) -> Void

  private struct Stored {
    var handler: Handler?
  }

  let keys: ObservedKeys
  let options: OperationObservation.Options
  private let stored: Locked<Stored>

  init(_ keys: ObservedKeys, _ options: OperationObservation.Options, _ handler: @escaping Handler) {
    self.keys = keys
    self.options = options
    stored = Locked(Stored(handler: handler))
  }

  private var handler: Handler? { stored.withLock { $0.handler } }

  /// Without a reference to the handler, which might be the last to what that has captured: asked under the operation's lock.
  var hasEnded: Bool { stored.withLock { $0.handler == nil } }

  func deliverInitial(_ operation: OwnedOperation, _ values: ObservedValues) {
    let value: Value? = options.contains(.new) ? values.value(of: keys) : nil
    handler?(operation, OperationChange(newValue: value, oldValue: nil, isPrior: false))
  }

  func deliverPrior(_ operation: OwnedOperation, _ values: ObservedValues) {
    let value: Value? = options.contains(.old) ? values.value(of: keys) : nil
    handler?(operation, OperationChange(newValue: nil, oldValue: value, isPrior: true))
  }

  func deliver(_ operation: OwnedOperation, _ entry: ObserverList.Entry) {
    if options.contains(.prior), entry.announced.isDisjoint(with: keys) { deliverPrior(operation, entry.old) }
    let old: Value? = options.contains(.old) ? entry.old.value(of: keys) : nil
    let new: Value? = options.contains(.new) ? entry.new.value(of: keys) : nil
    handler?(operation, OperationChange(newValue: new, oldValue: old, isPrior: false))
  }

  func end() { withExtendedLifetime(take()) {} }

  /// For threads that must not run what is the user's.
  func endInBackground() {
    if let former = take() { DeferredReleases.add(consume former) }
  }

  private func take() -> Handler? { stored.withLock { $0.handler.take() } }
}

final class StateStreamRegistration: ObserverRegistration {
  let keys = ObservedKeys.state
  let options: OperationObservation.Options = []
  private let continuation: AsyncStream<OperationState>.Continuation
  private let isOver = Atomic<Bool>(false)

  init(_ continuation: AsyncStream<OperationState>.Continuation) { self.continuation = continuation }

  var hasEnded: Bool { isOver.load(ordering: .relaxed) }

  func deliverInitial(_ operation: OwnedOperation, _ values: ObservedValues) {
    continuation.yield(values.word.state)
  }

  func deliverPrior(_ operation: OwnedOperation, _ values: ObservedValues) {}

  func deliver(_ operation: OwnedOperation, _ entry: ObserverList.Entry) {
    continuation.yield(entry.new.word.state)
  }

  func end() {
    guard !isOver.exchange(true, ordering: .acquiringAndReleasing) else { return }
    continuation.finish()
  }
}
