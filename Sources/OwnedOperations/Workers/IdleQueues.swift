import Dispatch

/// Queues that have run out of work, until somebody sees to what they don't need any more (`QueueCore.tidyUp`).
///
/// - A queue is in the list once (`claimTidyUp`).
/// - Who adds the first one sets a timer. When it goes off, a tenth of a second later, all that are in the list go. So none waits longer,
///   whatever comes after it, and a queue that is used all the time is tidied ten times a second at most.
/// - More than `mostKept` don't wait for the timer.
/// - What goes with a queue or a lifetime is the user's, and may block. It goes in the background, on no worker's thread.
enum IdleQueues {
  private struct State {
    var queues: [any IdleQueue] = []
    var isTimerSet = false
  }

  private static let state = Locked(State())
  private static let mostKept = 2048
  private static let interval = DispatchTimeInterval.milliseconds(100)
  private static let timerQueue = DispatchQueue(label: "OwnedOperations.idle")

  /// The queue has no work and no worker. Any thread, outside locks.
  static func note(_ queue: any IdleQueue) {
    if Haste.isForced { return }  // scenarios tidy up themselves
    guard queue.claimTidyUp() else { return }
    let (isTimerDue, queues) = state.withLock { state in
      state.queues.append(queue)
      defer { state.isTimerSet = true }
      return (!state.isTimerSet, state.queues.count >= mostKept ? take(&state) : [])
    }
    tidyUp(queues)
    if isTimerDue { Uptime.call(after: interval, on: timerQueue) { timerDidFire() } }
  }

  private static func timerDidFire() {
    let queues = state.withLock { state in
      state.isTimerSet = false
      return take(&state)
    }
    tidyUp(queues)
  }

  private static func take(_ state: inout State) -> [any IdleQueue] {
    defer { state.queues = [] }
    return state.queues
  }

  private static func tidyUp(_ queues: [any IdleQueue]) {
    for queue in queues { DeferredCalls.add { queue.tidyUp() } }
  }
}

/// A queue whose last worker has left. It may have gone.
protocol IdleQueue: AnyObject, Sendable {
  /// - Returns: whether the caller is the one to see to it that the queue is tidied up.
  func claimTidyUp() -> Bool

  /// Gives up what an idle queue doesn't need. From then on another can claim that. Any thread, outside locks.
  func tidyUp()
}
