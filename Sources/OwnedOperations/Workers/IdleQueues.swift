import Dispatch

/// Queues that have run out of work, until somebody sees to what they don't need any more (`QueueCore.tidyUp`).
///
/// - A queue is in the list once (`claimTidyUp`).
/// - Who adds the first one sets a timer. When it goes off, a tenth of a second later, all that are in the list go. So none waits longer,
///   whatever comes after it, and a queue that is used all the time is tidied ten times a second at most.
/// - More than `mostKept` don't wait for the timer.
/// - A second list is of those that have kept what they may soon want again. They are looked at every five seconds, until they keep
///   nothing: what a queue hasn't used since the last look goes.
/// - What goes with a queue or a lifetime is the user's, and may block. It goes in the background, on no worker's thread.
enum IdleQueues {
  private static let idle = List(interval: .milliseconds(100), mostKept: 2048) { $0.tidyUp() }
  private static let resting = List(interval: .seconds(5), mostKept: .max) { $0.tidyUpRest() }

  /// The queue has no work and no worker. Any thread, outside locks.
  static func note(_ queue: any IdleQueue) {
    if Haste.isForced { return }  // scenarios tidy up themselves
    if queue.claimTidyUp() { idle.add(queue) }
  }

  /// An idle queue has kept something.
  static func noteRest(of queue: any IdleQueue) {
    if Haste.isForced { return }
    if queue.claimRest() { resting.add(queue) }
  }

  private final class List: Sendable {
    private struct State {
      var queues: [any IdleQueue] = []
      var isTimerSet = false
    }

    private let state = Locked(State())
    private let interval: DispatchTimeInterval
    private let mostKept: Int
    private let body: @Sendable (any IdleQueue) -> Void

    init(interval: DispatchTimeInterval, mostKept: Int, _ body: @escaping @Sendable (any IdleQueue) -> Void) {
      (self.interval, self.mostKept, self.body) = (interval, mostKept, body)
    }

    func add(_ queue: any IdleQueue) {
      let (isTimerDue, queues) = state.withLock { state in
        state.queues.append(queue)
        defer { state.isTimerSet = true }
        return (!state.isTimerSet, state.queues.count >= mostKept ? Self.take(&state) : [])
      }
      callBody(with: queues)
      if isTimerDue { Uptime.call(after: interval, on: IdleQueues.timerQueue) { self.timerDidFire() } }
    }

    private func timerDidFire() {
      let queues = state.withLock { state in
        state.isTimerSet = false
        return Self.take(&state)
      }
      callBody(with: queues)
    }

    private static func take(_ state: inout State) -> [any IdleQueue] {
      defer { state.queues = [] }
      return state.queues
    }

    private func callBody(with queues: [any IdleQueue]) {
      for queue in queues { DeferredCalls.add { [body] in body(queue) } }
    }
  }

  private static let timerQueue = DispatchQueue(label: "OwnedOperations.idle")
}

/// A queue whose last worker has left. It may have gone.
protocol IdleQueue: AnyObject, Sendable {
  /// - Returns: whether the caller is the one to see to it that the queue is tidied up.
  func claimTidyUp() -> Bool

  /// Gives up what an idle queue doesn't need. From then on another can claim that. Any thread, outside locks.
  func tidyUp()

  /// The same for `tidyUpRest`.
  func claimRest() -> Bool

  /// Gives up of what `tidyUp` has left what the queue hasn't used since this was called last. From then on another can claim that.
  func tidyUpRest()
}
