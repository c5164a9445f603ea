import Dispatch

/// A body in a group. The group is entered first, and left when the body has been released: after it ran, or when its owner ended.
final class GroupedBody<Body: Sendable>: Sendable {
  nonisolated(unsafe) private(set) var body: Body?  // written in the deinit only
  private let group: DispatchGroup

  init(_ body: Body, in group: DispatchGroup) {
    self.body = body
    self.group = group
    group.enter()
  }

  deinit {
    body = nil
    group.leave()
  }
}

/// A body with the timer that will run it. The timer goes with the body: when the owner ends, nothing waits for the deadline.
final class DelayedBody<Body: Sendable>: Sendable {
  let body: Body
  private let timer: UptimeTimer

  init(_ body: Body, on timer: UptimeTimer) {
    self.body = body
    self.timer = timer
  }

  deinit {
    timer.cancel()
  }
}
