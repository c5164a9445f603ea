import Foundation

/// What a cancellation or a finish leaves to be done.
///
/// Operations whose cancellation this thread has to handle are handled one after the other, not one inside the other, however long the
/// chain. Code of the user's comes after all of them: it may wait for any. But Foundation's queues hear of what is ready before each, and
/// may ask an `isReady` that is overridden: that may wait for what is ready, and not for what is just being cancelled.
struct Aftermath {
  private struct Announcement {
    /// Until it has been made.
    var operation: OwnedOperation?
    let isOfCancellation: Bool
  }

  private struct Release {
    let dependent: OwnedOperation
    let failed: Operation?
  }

  private var cancelled: [OwnedOperation] = []
  /// Nil where it has been made.
  private var releases: [Release?] = []
  /// Foundation, which has asked before, is to hear that they are ready.
  private var ready: [OwnedOperation] = []
  private var announcements: [Announcement] = []

  private init() {}

  mutating func handleCancellation(of operation: OwnedOperation) { cancelled.append(operation) }
  /// One of the dependencies has finished. For those that have to be told beforehand: their count falls when all else is done.
  mutating func release(_ dependent: OwnedOperation, _ failed: Operation?) {
    releases.append(Release(dependent: dependent, failed: failed))
  }
  mutating func announceChanges(of operation: OwnedOperation) {
    announcements.append(Announcement(operation: operation, isOfCancellation: false))
  }
  mutating func announceReadiness(of operation: OwnedOperation) { ready.append(operation) }
  mutating func announceCancellation(of operation: OwnedOperation) {
    if !operation.ignoresCancellation { announcements.append(Announcement(operation: operation, isOfCancellation: true)) }
  }

  /// - Parameter inBackground: on a thread that others depend on. Code of the user's may block, so it is called elsewhere.
  static func run(inBackground: Bool = false, _ body: (inout Aftermath) -> Void) {
    var aftermath = Aftermath()
    body(&aftermath)
    aftermath.handleCancellations(inBackground)
    var released = 0
    while released < aftermath.releases.count, let release = aftermath.releases[released].take() {
      released += 1
      if inBackground {
        DeferredCalls.add { run { aftermath in release.dependent.dependencyDidFinish(release.failed, &aftermath) } }
      } else {
        release.dependent.dependencyDidFinish(release.failed, &aftermath)
        aftermath.handleCancellations(inBackground)
      }
      DeferredReleases.add(consume release)
    }
    for index in aftermath.announcements.indices {
      guard let operation = aftermath.announcements[index].operation.take() else { continue }
      let isOfCancellation = aftermath.announcements[index].isOfCancellation
      if inBackground {
        DeferredCalls.add { [operation] in operation.announce(isOfCancellation) }
      } else {
        operation.announce(isOfCancellation)
      }
      letGo(of: consume operation)
    }
  }

  private mutating func handleCancellations(_ inBackground: Bool) {
    tellFoundation(inBackground)
    while let operation = cancelled.popLast() {
      operation.processCancellation(&self)
      Self.letGo(of: consume operation)
      tellFoundation(inBackground)
    }
  }

  /// First of all news: it may be what starts the operation, which others may wait for.
  private mutating func tellFoundation(_ inBackground: Bool) {
    ready.reverse()
    while let operation = ready.popLast() {
      if inBackground {
        DeferredCalls.add { [operation] in operation.tellFoundation(.isReady) }
      } else {
        operation.tellFoundation(.isReady)
      }
      Self.letGo(of: consume operation)
    }
  }

  /// It may depend on what somebody cancels, or have run meanwhile, and have been in no hands but its queue's. The canceller may have locks
  /// that its deinit wants, and of what finishes others are to hear first.
  static func letGo(of operation: consuming OwnedOperation) {
    var operation = operation
    if isKnownUniquelyReferenced(&operation) { DeferredReleases.add(consume operation) }
  }
}

extension OwnedOperation {
  fileprivate final func announce(_ isOfCancellation: Bool) { if isOfCancellation { announceCancellation() } else { deliverChanges() } }

  final func cancel(_ reason: StateWord.Reason) { cancel(reason, from: .executing, inBackground: false) }

  /// Cancels it if no start has been accepted, in one step with that look. Where nobody may wait for what is the user's: that is called in
  /// the background.
  final func cancelUnlessStarted() {
    // Those who want to hear beforehand, and Foundation, which may ask what is overridden, are told in the midst of it.
    if load().containsAny([.isObservedBeforehand, .readinessWasRead]) {
      DeferredCalls.add { self.cancel(.requested, from: .pending, inBackground: false) }
    } else {
      cancel(.requested, from: .pending, inBackground: true)
    }
  }

  /// - Parameter last: in which phase it may be at the latest.
  private final func cancel(_ reason: StateWord.Reason, from last: StateWord.Phase, inBackground: Bool) {
    let change = update { word in
      guard word.phase.rawValue <= last.rawValue, !word.isCancelled || Mutation.cancelsTwice.isOn else { return nil }
      var new = word
      // The owner may have ended unnoticed; then that is the reason.
      new.cancel(lifetime.isAlive ? reason : .ownerEnded)
      new.insert(.cancelClaimed)
      return new
    }
    guard change != nil else { return }
    Aftermath.run(inBackground: inBackground) { aftermath in processCancellation(&aftermath) }
  }

  final func lifetimeDidEnd() {
    // Those who want to hear beforehand, and Foundation, which may ask what is overridden, are told in the midst of it.
    if load().containsAny([.isObservedBeforehand, .readinessWasRead]) {
      DeferredCalls.add { self.finishAfterEndOfOwner(inBackground: false) }
    } else {
      finishAfterEndOfOwner(inBackground: true)
    }
  }

  /// The reaper's part. What has not started finishes here, unless it has been cancelled and its handler is about to.
  private final func finishAfterEndOfOwner(inBackground: Bool) {
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
      Aftermath.run(inBackground: inBackground) { aftermath in processCancellation(&aftermath) }
    } else if change.turned(.finishClaimed) {
      Aftermath.run(inBackground: inBackground) { aftermath in completeFinish(&aftermath) }
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
      releaseWork()
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
    if load().phase == .executing { tellSchedulerOfCancelledTask() }
    resumeCancelled()
    cancelDependents(&aftermath)
    if load().contains(.isObserved) { aftermath.announceChanges(of: self) }
    aftermath.announceCancellation(of: self)
  }

  /// `didCancel`, once.
  final func announceCancellation() {
    tellFoundation(.isCancelled)
    cancelWork()
    let reason = reason(in: load())
    if Mutation.didCancelRunsUnderTheLock.isOn { lock.withLock { didCancel(reason) } } else { didCancel(reason) }
    if reason.isTimeout, finishesOnTimeout { finishExecution(throwing: nil) }
  }
}

extension CancellationReason {
  fileprivate var isTimeout: Bool {
    if case .timedOut = self { true } else { false }
  }
}
