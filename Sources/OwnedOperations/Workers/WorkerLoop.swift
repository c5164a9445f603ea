/// A worker's way from its call until it leaves: run what it was given, settle, look, take, run, and so on. What it has run is counted, and
/// what it does next decided, in one hold of the lock (`Scheduler.nextStep`).
///
/// It leaves last of all. Once it has left, it is the next to be sent for, and what it still did would hold up what comes then.
extension Worker {
  /// - Returns: whether the queue has no other worker now.
  func drain(_ core: QueueCore) -> Bool {
    beginDrain()
    let deadline = isGuest ? Uptime.now + Self.guestTime : .max
    var last = hasWork ? runOnce(core.hint) : .nothing
    while true {
      let isTimeUp = last != .nothing && deadline != .max && Uptime.now > deadline
      switch core.mutate({ scheduler, _ in scheduler.nextStep(of: self, after: last, isTimeUp: isTimeUp) }) {
      case .run: last = runOnce(core.hint)
      case .lookAgain: last = .nothing
      case .letOthersRun:
        dispatch()
        return false
      case .leave(let isLast): return isLast
      case .leaveLater: return core.note { $0.leave(self) }
      }
    }
  }

  /// Runs what the worker has been given.
  private func runOnce(_ hint: QueueHint) -> Scheduler.LastStep {
    let isBarrier = barrier != nil
    WorkerThreads.stopLooking()
    becomeCurrent { withAutoreleasePool { run() } }
    if lastBatchWasSmall { spin(hint) }
    return isBarrier ? .barrier : .items
  }

  /// A worker that keeps up with those who add work finds a work item or two each time it looks. It would spend its time, and theirs, on
  /// the lock, and on leaving and being sent for.
  ///
  /// - So after a small batch it looks `spinLooks` times for work to come: some ten microseconds in all, and without the lock.
  /// - If that is quick work, it looks up to `gatheringLooks` more times for it to become several items, as long as it does (`Gathering`).
  /// - Not if somebody waits for the queue, or if the work is its own jobs': those add no more while it looks.
  /// - It looks for work of other queues, too, and leaves for that: whoever adds it needs to wake nobody.
  /// - What it has to do first ends that (`WorkerThreads.stopLooking`).
  private func spin(_ hint: QueueHint) {
    if hasFedQueue, !hint.flags.isEmpty || !batch.nested.isEmpty { return }
    threads?.beginLooking()
    var looksLeft = Self.spinLooks
    while looksLeft > 0, !hint.flags.contains(.somebodyWaits), !(threads?.isAnyDue ?? false) {
      let hasWork = !hint.flags.isEmpty
      if hasWork, !(profitsFromSeveral && gathering.begins()) { return }
      noteWait()
      Pause.spin(Self.spinPause)
      looksLeft = hasWork ? min(looksLeft, Self.gatheringLooks) - 1 : looksLeft - 1
    }
  }

  private static let spinPause = 10
  private static let spinLooks = 20
  private static let gatheringLooks = 10
}
