/// A wait, made by a body, for work of the body's own owner: the body lets that work begin meanwhile, though it may be the only one to hold
/// the owner.
struct OwnBodyWait {
  private enum Body {
    case synchronous(OwnerHold)
    case asynchronous(OwnBodyTaskWait)
  }

  private let body: Body

  /// Whether this thread runs a body that holds its owner.
  static var isInBody: Bool { ThreadSlot.ownerHold.pointer != nil || taskBody != nil }

  /// On the thread that is about to block.
  static func begin(for target: WaitTarget) -> OwnBodyWait? {
    if let hold = ThreadSlot.ownerHold.object(OwnerHold.self) {
      guard target.includesWork(ofOwnerIn: hold), !Mutation.waitingBodyCounts.isOn else { return nil }
      hold.countOut()
      return OwnBodyWait(body: .synchronous(hold))
    }
    guard let taskBody else { return nil }
    let wait = OwnBodyTaskWait(taskBody, target)
    wait.look()
    return wait.hasBegun ? OwnBodyWait(body: .asynchronous(wait)) : nil
  }

  func end() {
    switch body {
    case .synchronous(let hold): hold.countIn()
    case .asynchronous(let wait): wait.end()
    }
  }

  /// Of the asynchronous body that this task runs, or was made by.
  @TaskLocal static var taskBody: AsyncBody?
}

extension WaitTarget {
  /// Every wait of a task goes through here.
  /// - Parameter waiter: hears when the target may have come to lead elsewhere.
  func whileWaiting<Result>(
    toldBy waiter: WaitingTask? = nil, isolation: isolated (any Actor)? = #isolation, _ wait: () async throws -> Result
  ) async rethrows -> Result {
    let watched = WatchedWait.begin(for: self, toldBy: waiter)
    do {
      let result = try await wait()
      await watched?.end()
      return result
    } catch {
      await watched?.end()
      throw error
    }
  }
}

/// The wait of a task that is, or was made by, an asynchronous body. Once the wait is found to be for work of the body's owner, the body is
/// counted out; see `WatchedWait`.
final class OwnBodyTaskWait: @unchecked Sendable {  // `state` is guarded by the lock of `body`
  fileprivate enum State {
    case watching, begun, over
  }

  private let body: AsyncBody
  private let target: WaitTarget
  fileprivate var state = State.watching

  init(_ body: AsyncBody, _ target: WaitTarget) {
    self.body = body
    self.target = target
  }

  /// Whether to look again.
  var isWatching: Bool { body.state(of: self) == .watching }
  var hasBegun: Bool { body.state(of: self) == .begun }

  /// What the target leads to may have changed. Any thread, outside locks.
  func look() {
    if isWatching, target.includesWork(ofOwnerIn: body.hold) { body.begin(self) }
  }

  func end() { body.end(self) }
}

/// An asynchronous body that holds its owner. Tasks that it makes inherit it, may wait at the same time, and may outlive it: the body is
/// counted out once, while it runs.
final class AsyncBody: Sendable {
  let hold: OwnerHold
  private let lock = Lock()
  // Guarded by `lock`.
  nonisolated(unsafe) private var isRunning = true
  nonisolated(unsafe) private var waits = 0

  init(_ hold: OwnerHold) { self.hold = hold }

  /// Once the body has returned, its waits are over.
  fileprivate func state(of wait: OwnBodyTaskWait) -> OwnBodyTaskWait.State {
    lock.withLock { isRunning ? wait.state : .over }
  }

  fileprivate func begin(_ wait: OwnBodyTaskWait) {
    let isFirst = lock.withLock {
      guard isRunning, wait.state == .watching else { return false }
      wait.state = .begun
      waits += 1
      return waits == 1
    }
    if isFirst { hold.countOut() }
  }

  fileprivate func end(_ wait: OwnBodyTaskWait) {
    let isLast = lock.withLock {
      let hadBegun = wait.state == .begun
      wait.state = .over
      guard hadBegun else { return false }
      waits -= 1
      return isRunning && waits == 0
    }
    if isLast { hold.countIn() }
  }

  /// The body has returned, and let go of its owner.
  func end() {
    let isCounted = lock.withLock {
      isRunning = false
      return waits == 0
    }
    if isCounted { hold.countOut() }
  }
}
