/// A wait of a thread, made inside of bodies that hold their owners. Those for whose owners' work it is let that work begin meanwhile,
/// though they may be the only ones to hold them.
///
/// - Asked are all bodies that the thread is inside of, not just the innermost: a body may post, and the handler wait. And the asynchronous
///   body whose task the thread runs.
/// - A body is asked until the wait turns out to be for its owner's work. Then it is counted out, once, until the wait is over.
struct OwnBodyWait {
  private let target: WaitTarget
  private var watching: [UnsafeMutablePointer<OwnerBodyFrame>]
  private var countedOut: [UnsafeMutablePointer<OwnerBodyFrame>] = []
  private let task: OwnBodyTaskWait?

  /// On the thread that is about to block. `end` has to follow, on the same thread.
  init(for target: WaitTarget) {
    self.target = target
    watching = Mutation.waitingBodyCounts.isOn ? [] : OwnerBodyFrame.counted
    task = OperationTask.current?.body.map { OwnBodyTaskWait($0, target) }
  }

  /// Whether to look again.
  var isWatching: Bool { !watching.isEmpty || task?.isWatching ?? false }

  /// What the target leads to may have changed.
  mutating func look() {
    task?.look()
    guard !watching.isEmpty else { return }
    let asked = watching
    watching = []
    for frame in asked {
      if target.includesWork(ofOwnerIn: frame.pointee.hold) {
        frame.pointee.countOut()
        countedOut.append(frame)
      } else {
        watching.append(frame)
      }
    }
  }

  func end() {
    for frame in countedOut { frame.pointee.countIn() }
    task?.end()
  }
}

extension WaitTarget {
  /// Every wait of a task goes through here.
  /// - Parameter waiter: hears when the target may have come to lead elsewhere.
  func whileWaiting<Result>(
    toldBy waiter: WaitingTask? = nil, isolation: isolated (any Actor)? = #isolation, _ wait: () async throws -> Result
  ) async rethrows -> Result {
    guard let watched = WatchedWait.begin(for: self, toldBy: waiter) else { return try await wait() }
    do {
      let result = try await wait()
      await watched.end()
      return result
    } catch {
      await watched.end()
      throw error
    }
  }
}

/// The wait of a task that is, or was made by, an asynchronous body. Once the wait is found to be for work of the body's owner, the body is
/// counted out; see `WatchedWait`.
final class OwnBodyTaskWait: Sendable {
  fileprivate enum State {
    case watching, begun, over
  }

  private let body: AsyncBody
  private let target: WaitTarget
  fileprivate let state = SharedCell(State.watching)  // guarded by the lock of `body`

  init(_ body: AsyncBody, _ target: WaitTarget) {
    self.body = body
    self.target = target
  }

  /// Whether to look again.
  var isWatching: Bool { body.state(of: self) == .watching }

  /// What the target leads to may have changed. Any thread, outside locks.
  func look() {
    if isWatching, target.includesWork(ofOwnerIn: body.hold) { body.begin(self) }
  }

  func end() { body.end(self) }
}

/// An asynchronous body that holds its owner. Tasks that it makes inherit it, may wait at the same time, and may outlive it. So the body is
/// counted out once, while it runs.
final class AsyncBody: Sendable {
  let hold: OwnerHold
  private let course = Locked(Course())

  private struct Course {
    var isRunning = true
    var waits = 0
  }

  init(_ hold: OwnerHold) { self.hold = hold }

  /// Once the body has returned, its waits are over.
  fileprivate func state(of wait: OwnBodyTaskWait) -> OwnBodyTaskWait.State {
    course.withLock { $0.isRunning ? wait.state.value : .over }
  }

  fileprivate func begin(_ wait: OwnBodyTaskWait) {
    let isFirst = course.withLock { course in
      guard course.isRunning, wait.state.value == .watching else { return false }
      wait.state.value = .begun
      course.waits += 1
      return course.waits == 1
    }
    if isFirst { hold.countOut() }
  }

  fileprivate func end(_ wait: OwnBodyTaskWait) {
    let isLast = course.withLock { course in
      let hadBegun = wait.state.value == .begun
      wait.state.value = .over
      guard hadBegun else { return false }
      course.waits -= 1
      return course.isRunning && course.waits == 0
    }
    if isLast { hold.countIn() }
  }

  /// The body has returned, and let go of its owner.
  func end() {
    let isCounted = course.withLock { course in
      course.isRunning = false
      return course.waits == 0
    }
    if isCounted { hold.countOut() }
  }
}
