import Dispatch

/// A wait in a task, as long as it goes on. Meanwhile others get what the task holds and the target may need: its operation's permit
/// (`TaskWait`), and its owner (`OwnBodyTaskWait`).
///
/// ## Protocol
///
/// What a target leads to changes: operations are added, bodies wait, dependencies come. So each half asks until it hears yes.
///
/// - A half is `watching`, `begun` or `over`. Its lock decides between a look and the end.
/// - `watching` to `begun`: a look found that the target leads to work that needs what the half is about. Once; it stays so.
/// - Both to `over`: the wait has ended. What had begun is taken back.
///
/// Who looks while a half is `watching`:
/// - the task, when it begins to wait;
/// - whoever attaches the operation that it awaits, or begins a wait in that one's body: at once, in the background (`targetDidChange`);
/// - `WatchedWaits`, a timer: what changes further away tells nobody.
///
/// A thread that waits looks by itself, as often: see `BlockingRegion`.
final class WatchedWait: Sendable {
  private let permit: TaskWait?
  private let owner: OwnBodyTaskWait?

  private init(_ permit: TaskWait?, _ owner: OwnBodyTaskWait?) {
    self.permit = permit
    self.owner = owner
  }

  /// - Parameter waiter: hears when the target may have come to lead elsewhere.
  /// - Returns: nil if the task holds nothing. Otherwise `end` has to follow.
  static func begin(for target: WaitTarget, toldBy waiter: WaitingTask?) -> WatchedWait? {
    let permit = OperationTask.beginWait(for: target)
    let owner = OperationTask.current?.body.map { OwnBodyTaskWait($0, target) }
    guard permit != nil || owner != nil else { return nil }
    let wait = WatchedWait(permit, owner)
    waiter?.tell(wait)
    wait.look()
    if wait.isWatching { WatchedWaits.insert(wait) }
    return wait
  }

  /// Any thread, outside locks.
  func look() {
    permit?.look()
    owner?.look()
  }

  /// Whether to look again.
  var isWatching: Bool { permit?.isWatching ?? false || owner?.isWatching ?? false }

  /// Returns when the task may go on.
  func end() async {
    WatchedWaits.remove(self)
    owner?.end()
    await permit?.end()
  }

  /// Of the operation whose task waits.
  var driver: (any QueueDriver)? { permit?.driver }

  var drivenLook: DrivenStep {
    DrivenStep(isShuffled: false) { [self] _ in
      look()
      return .nothing
    }
  }

  /// For tests.
  func isWait(of operation: OwnedOperation) -> Bool { permit?.isWait(of: operation) ?? false }
}

/// The waits of all tasks of the process that look again from time to time.
///
/// - A wait is looked at 50 ms after its beginning, and again after twice as long each time, up to 1 s.
/// - One timer is set to the earliest of these times; to none while there is no such wait.
/// - A wait leaves when its task goes on, or when a look has left nothing to be found. Until then it stays, also while it is looked at.
/// - Each round has a dispatch queue, and so a thread, of its own. Looks ask plain operations, whose answers are the user's code. And a
///   round may let go of the last reference to an operation. What doesn't return there holds up nobody but its round.
enum WatchedWaits {
  private static let firstDelay: UInt64 = 50_000_000
  private static let longestDelay: UInt64 = 1_000_000_000

  private struct Entry {
    let wait: WatchedWait
    var delay = firstDelay
    /// Nil while it is looked at.
    var time: UInt64?
  }

  private struct State: ~Copyable {
    var entries = PointerMap<Entry>()
    /// What the timer is set to.
    var next = UInt64.max

    mutating func set(_ entry: consuming Entry, to time: UInt64) {
      entry.time = time
      entries[entry.wait] = entry
      setTimer(time)
    }

    mutating func setTimer(_ time: UInt64) {
      guard time < next else { return }
      next = time
      timer.set(DispatchTime(uptimeNanoseconds: time))
    }

    /// Those whose time has come. Linear.
    mutating func takeDue(_ now: UInt64) -> [WatchedWait] {
      var earliest = UInt64.max
      let due = entries.filter { entry in
        guard let time = entry.time else { return false }
        if time > now { earliest = min(earliest, time) }
        return time <= now
      }
      for var entry in due {
        entry.time = nil
        entries[entry.wait] = entry
      }
      if !Mutation.waitsAreLookedAtOnce.isOn { next = .max }
      setTimer(earliest)
      return due.map(\.wait)
    }
  }

  private static let state = Locked(State())
  private static let timer = makeTimer()

  private static func makeTimer() -> UptimeTimer {
    let timer = UptimeTimer(on: DispatchQueue(label: "OwnedOperations.waits", qos: .userInitiated))
    timer.setHandler { beginRound() }
    timer.set(.distantFuture)
    timer.activate()
    return timer
  }

  static func insert(_ wait: WatchedWait) {
    let time = Uptime.now + firstDelay
    state.withLock { $0.set(Entry(wait: wait), to: time) }
  }

  /// The caller holds it.
  static func remove(_ wait: WatchedWait) {
    state.withLock { $0.entries[wait] = nil }
  }

  private static func beginRound() {
    let due = state.withLock { $0.takeDue(Uptime.now) }
    guard !due.isEmpty else { return }
    ThreadStart.on(DispatchQueue(label: "OwnedOperations.waits.round", qos: .userInitiated)) { look(at: due) }
  }

  private static func look(at waits: [WatchedWait]) {
    for wait in waits {
      wait.look()
      let isWatching = wait.isWatching
      let now = Uptime.now
      state.withLock { state in
        guard var entry = state.entries[wait] else { return }
        guard isWatching else {
          state.entries[wait] = nil
          return
        }
        entry.delay = min(longestDelay, entry.delay * 2)
        state.set(entry, to: now + entry.delay)
      }
    }
  }

  /// Looks at the waits of the driver's tasks, when it has nothing else to do.
  static func look(drivenBy driver: any QueueDriver) {
    for entry in state.withLock({ $0.entries.filter { $0.wait.driver === driver } }) { entry.wait.look() }
  }

  /// For tests: whether a task of the operation waits, and has looked for the first time.
  static func contains(waitOf operation: OwnedOperation) -> Bool {
    state.withLock { !$0.entries.filter { $0.wait.isWait(of: operation) }.isEmpty }
  }
}
