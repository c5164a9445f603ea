import Dispatch
import Synchronization

/// Hears that the work on this thread is about to block: a queue's worker has another one take over.
class BlockingObserver {
  func willBlock(for target: WaitTarget) {}
  /// What the target leads to may have changed since: an operation has been added to a queue, or its body waits.
  /// - Returns: whether it makes sense to ask again.
  func isStillBlocked(for target: WaitTarget) -> Bool { false }
  func didUnblock() {}
  /// Who runs what this thread waits for, if that is the thread itself.
  var driver: (any QueueDriver)? { nil }
  /// A body is over, though what it captured may still have to go.
  /// - Parameter work: the operation whose body it is, or the run of a graph. What this thread runs may be something else, which goes on.
  ///   For an operation may be finished, and a run cancelled, from anywhere.
  func bodyDidEnd(of work: AnyObject) {}
}

/// What a blocked thread waits on. Signalled once when its wait is over, and before that to have it look at its target again.
final class WaitingThread: OperationWaiter {
  private let semaphore = Semaphore()
  private let isOver = Atomic(false)

  func wake() {
    isOver.store(true, ordering: .releasing)
    semaphore.signal()
  }

  func targetDidChange() { semaphore.signal() }

  /// - Parameter driver: runs what is waited for, if there is one.
  func wait(drivenBy driver: (any QueueDriver)?, for target: String) {
    guard let driver else { return wait() }
    driver.drive(until: { hasEnded }, for: target)
  }

  var hasEnded: Bool { isOver.load(ordering: .acquiring) }

  func wait() {
    if AdaptiveSpin.ofWaits.look(until: { hasEnded }) { return }
    AdaptiveSpin.ofWaits.sleep { while !hasEnded { semaphore.wait() } }
  }

  /// - Returns: whether the wait is over. If not, the target may have changed, or the time is up.
  func wait(for time: DispatchTimeInterval) -> Bool {
    if hasEnded { return true }
    _ = semaphore.wait(until: Uptime.time(after: time))
    return hasEnded
  }
}

/// Every wait that blocks a thread goes through here.
enum BlockingRegion {
  /// A wait looks at its target again without having been told: first after so many milliseconds, then after twice as long each time.
  private static let firstPause = 50
  private static let longestPause = 1000

  /// - Parameter driver: who runs what is waited for, if the target doesn't say so itself.
  static func perform(for target: WaitTarget, _ thread: WaitingThread, drivenBy driver: (any QueueDriver)? = nil) {
    let operations = OperationThread.operationsInside
    for operation in operations { operation.setCurrentWait(target, of: thread) }
    defer { for operation in operations { operation.setCurrentWait(nil, of: thread) } }
    let taskWait = OperationTask.beginWait(for: target)
    defer { taskWait?.endBlocking() }
    taskWait?.look()
    var ownBodies = OwnBodyWait(for: target)
    defer { ownBodies.end() }
    ownBodies.look()
    let observer = ThreadSlot.blockingObserver.object(BlockingObserver.self)
    observer?.willBlock(for: target)
    defer { observer?.didUnblock() }
    // What this thread's worker had taken beside the body has gone back to the queue, and counts now.
    ownBodies.look()
    if let driver = driver ?? target.driver ?? observer?.driver ?? OperationTask.current?.scheduler?.driver {
      func isOver() -> Bool {
        _ = observer?.isStillBlocked(for: target)
        taskWait?.look()
        ownBodies.look()
        return thread.hasEnded
      }
      return driver.drive(until: isOver, for: target.description)
    }
    var pause = firstPause
    while true {
      let mayYield = observer?.isStillBlocked(for: target) ?? false
      guard mayYield || taskWait != nil || ownBodies.isWatching else { return thread.wait() }
      if thread.wait(for: .milliseconds(pause)) { return }
      pause = min(longestPause, pause * 2)
      taskWait?.look()
      ownBodies.look()
    }
  }
}
