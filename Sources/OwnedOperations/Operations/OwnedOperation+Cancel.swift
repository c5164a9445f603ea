import Foundation

/// What a cancellation or a finish leaves to be done.
///
/// Operations whose cancellation this thread has to handle are handled one after the other, not one inside the other, however long the chain. Code
/// of the user's comes after all of them: it may wait for any.
struct Aftermath {
  private enum Announcement {
    case changes(OwnedOperation)
    case cancellation(OwnedOperation)
  }

  private var cancelled: [OwnedOperation] = []
  private var announcements: [Announcement] = []

  private init() {}

  mutating func handleCancellation(of operation: OwnedOperation) { cancelled.append(operation) }
  mutating func announceChanges(of operation: OwnedOperation) { announcements.append(.changes(operation)) }
  mutating func announceCancellation(of operation: OwnedOperation) {
    if !operation.ignoresCancellation { announcements.append(.cancellation(operation)) }
  }

  /// - Parameter onReaper: `didCancel` may block, and this thread had better not wait for it.
  static func run(onReaper: Bool = false, _ body: (inout Aftermath) -> Void) {
    var aftermath = Aftermath()
    body(&aftermath)
    while let operation = aftermath.cancelled.popLast() { operation.processCancellation(&aftermath) }
    for announcement in aftermath.announcements {
      switch announcement {
      case .changes(let operation): operation.deliverChanges()
      case .cancellation(let operation): operation.announceCancellation(onReaper: onReaper)
      }
    }
  }
}

extension OwnedOperation {
  final func cancel(_ reason: StateWord.Reason, onReaper: Bool = false) {
    let change = update { word in
      guard !word.isFinished, !word.isCancelled else { return nil }
      var new = word
      // The owner may have ended unnoticed; then that is the reason.
      new.cancel(lifetime.isAlive ? reason : .ownerEnded)
      new.insert(.cancelClaimed)
      return new
    }
    guard change != nil else { return }
    Aftermath.run(onReaper: onReaper) { aftermath in processCancellation(&aftermath) }
  }

  /// The reaper's part. What has not started finishes here, unless it has been cancelled and its handler is about to.
  final func lifetimeDidEnd() {
    let change = update { word in
      guard !word.isFinished else { return nil }
      var new = word
      if !word.isCancelled { new.cancel(.ownerEnded) }
      new.insert(.cancelClaimed)
      if word.phase == .pending {
        new.insert(.wantsFinish)
        if word.contains(.workReleased) { new.insert(.finishClaimed) }
      }
      return new
    }
    guard let change else { return }
    if change.turned(.cancelClaimed) {
      Aftermath.run(onReaper: true) { aftermath in processCancellation(&aftermath) }
    } else if change.turned(.finishClaimed) {
      Aftermath.run(onReaper: true) { aftermath in completeFinish(&aftermath) }
    }
  }

  /// Made for an owner that had ended. Nobody else knows of the operation yet.
  final func finishForEndedOwner() {
    update { word in
      var new = word
      new.cancel(.ownerEnded)
      new.insert([.cancelClaimed, .workReleased, .wantsFinish, .finishClaimed])
      new.phase = .finished
      return new
    }
    releaseWork()
  }

  /// For the one thread that has turned `cancelClaimed`.
  final func processCancellation(_ aftermath: inout Aftermath) {
    if load().phase == .pending {
      OperationThread.run(inside: self, for: .release) { releaseWork() }
      let change = update { word in
        var new = word
        new.insert(.workReleased)
        if word.contains(.attached) || word.contains(.wantsFinish) { new.insert(.finishClaimed) }
        return new
      }
      if let change {
        if change.new.contains(.readinessWasRead), !change.new.contains(.wasStarted) { tellFoundation(.isReady) }
        if change.turned(.finishClaimed) { completeFinish(&aftermath) }
      }
    }
    cancelDependents(&aftermath)
    if load().contains(.isObserved) { aftermath.announceChanges(of: self) }
    aftermath.announceCancellation(of: self)
  }

  /// `didCancel`, once. On the reaper it must not run: it may block, and others wait to be cleaned up.
  final func announceCancellation(onReaper: Bool) {
    #if canImport(ObjectiveC)
      tellFoundation(.isCancelled)
    #endif
    let word = load()
    let reason = reason(in: word)
    let announce: @Sendable () -> Void = { [self] in
      cancelWork()
      didCancel(reason)
      if reason.isTimeout, finishesOnTimeout { finishExecution(throwing: nil) }
    }
    guard onReaper else {
      announce()
      return
    }
    if word.phase == .executing {
      // A queue of its own always gets a thread, even if work that waits for this very call holds all of the pool's.
      DispatchQueue(label: "OwnedOperations.didCancel", qos: .userInitiated).async(execute: announce)
    } else {
      DispatchQueue.global(qos: .utility).async(execute: announce)
    }
  }
}

extension CancellationReason {
  fileprivate var isTimeout: Bool {
    if case .timedOut = self { true } else { false }
  }
}
