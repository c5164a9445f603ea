import Foundation
import Synchronization

/// All access to the state word. The protocol stands at `StateWord`.
extension OwnedOperation {
  /// The lifetime stays for as long as the operation does. To count references for each look at it would take a good part of the time that
  /// an operation costs.
  final var unretainedLifetime: Borrowed<OwnerLifetime> { Borrowed(lifetime) }

  final var isOwnerAlive: Bool { unretainedLifetime.with { $0.isAlive } }

  final func load() -> StateWord { StateWord(rawValue: word.load(ordering: .acquiring)) }

  /// The word, after an end of the owner has been written into it: for every question whose answer the end changes.
  final func settled() -> StateWord {
    let word = load()
    if word.isFinished || word.isCancelled || isOwnerAlive || Mutation.cancellationWaitsForTheReaper.isOn { return word }
    return noteOwnerEnded()
  }

  /// Runs no code of the user's: what follows from the cancellation is left to its handler.
  @inline(never)
  private func noteOwnerEnded() -> StateWord {
    let change = update { word in
      guard !word.isFinished, !word.isCancelled else { return nil }
      var new = word
      new.cancel(.ownerEnded)
      return new
    }
    return change?.new ?? load()
  }

  /// Exchanges the word for what the closure makes of it. The closure may be called several times, outside locks; it returns nil to leave
  /// the word alone.
  @discardableResult
  final func update(_ transform: (StateWord) -> StateWord?) -> StateChange? {
    var current = load()
    while !current.contains(.isObserved) {
      guard let new = transform(current) else { return nil }
      let (exchanged, original) = word.compareExchange(
        expected: current.rawValue, desired: new.rawValue, successOrdering: .acquiringAndReleasing, failureOrdering: .acquiring)
      if exchanged { return StateChange(old: current, new: new) }
      current = StateWord(rawValue: original)
    }
    return updateObserved(transform)
  }

  /// The exchange and its entry in the list of changes are made under the lock: the list is in the order of the exchanges.
  @inline(never)
  private func updateObserved(_ transform: (StateWord) -> StateWord?) -> StateChange? {
    let beingAnnounced = PriorCall.keys(of: self)
    var announced = beingAnnounced
    while true {
      let current = load()
      guard let new = transform(current) else { return nil }
      if current.contains(.isObservedBeforehand) {
        var keys = ObservedKeys(changedFrom: current, to: new)
        if !current.isCancelled, new.isCancelled, new.reason == .ownerEnded {
          // The owner has ended already, and anybody, even a getter, may be writing that down just now. So it is told with the change.
          keys = new.isFinished ? keys.subtracting([.isCancelled, .isReady]) : []
        }
        if !keys.isDisjoint(with: beingAnnounced), PriorCall.tellRest(of: self, keys) { continue }
        keys.subtract(announced)
        if !keys.isEmpty {
          announced.formUnion(keys)
          announceChange(of: keys, from: current)
          continue
        }
      }
      let isExchanged = lock.withLock {
        let (exchanged, _) = word.compareExchange(
          expected: current.rawValue, desired: new.rawValue, successOrdering: .acquiringAndReleasing, failureOrdering: .acquiring)
        if exchanged { extras?.observers?.record(from: current, to: new, announced: announced) }
        return exchanged
      }
      if isExchanged { return StateChange(old: current, new: new) }
    }
  }

  /// What follows from an exchange that neither cancelled nor finished the operation. Outside locks.
  final func react(to change: StateChange) {
    if change.altersReadiness {
      if change.new.contains(.readinessWasRead) { tellFoundation(.isReady) }
      tellScheduler(of: change)
    }
    if change.new.contains(.isObserved) { deliverChanges() }
  }

  final func tellScheduler(of change: StateChange) {
    if change.turned(.announced) { lock.withLock { scheduler }?.operationDidBecomeReady(self) }
  }
}
