import Dispatch

/// The operations that nobody announces: those whose own `isReady` holds them back, and plain ones that wait for dependencies.
///
/// ## Protocol
///
/// Of an operation that is attached and pending, exactly one of these holds, or is being made true by the thread that broke it:
/// - `announced` is set, and a ready list has a record of it;
/// - it waits for dependencies; the last one to finish sets `announced`, and who turns the bit makes the record;
/// - `watched` is set, and it stands in `held`.
///
/// Rules:
/// - Who runs a record clears `announced` in one exchange: to start (`startIfReady`), or to hold back (`holdBack`), which sets `watched`.
/// - The exchange for a start decides: a dependency that is added later comes too late.
/// - Who asks, and hears yes, clears `watched` and sets `announced` if no dependency is left, in one exchange (`announceAgain`).
/// - An operation in `held` is taken out, under the queue's lock, when a record is made, it finishes, or `watched` is clear.
/// - Plain operations in `blocked` wait for dependencies of their proxies. They are asked because nobody tells us of a cancellation.
/// - A plain operation that calls itself ready loses its proxy's dependencies; so it is announced like any other.
///
/// Asking runs code of the user's. It happens on a thread of the queue's own, outside every lock, and never on a worker that looks for
/// work.
///
/// When they are asked:
/// - one that was just held back, or has announced a change: within a millisecond;
/// - all, every 50 ms; every second once nothing has changed for a minute;
/// - more than 500 of one list: by turns, 500 every 50 ms (10,000 every second), and as many more as can be asked in 200 us (4 ms).
///
/// Nothing is set up, and no timer runs, while nobody is watched.
///
/// Guarded by the queue's lock. The registry keeps the operations in the lists.
struct WatchedOperations {
  enum List: UInt8 {
    case none, held, blocked
  }

  private var held = Turns()
  private var blocked = Turns()
  /// To be asked at once.
  private var urgent: [ObjectIdentifier: OwnedOperation] = [:]
  private(set) var lastChange: UInt64 = 0
  private(set) var lastRound: UInt64 = 0
  private var timer: ReadinessTimer?

  /// Operations that are asked in turn.
  private struct Turns {
    var operations: ContiguousArray<Borrowed<OwnedOperation>> = []
    var next = 0
  }

  init() {}

  var isEmpty: Bool { held.operations.isEmpty && blocked.operations.isEmpty }

  func count(_ list: List) -> Int { list == .held ? held.operations.count : list == .blocked ? blocked.operations.count : 0 }

  /// - Returns: its place in the list.
  mutating func insert(_ operation: Borrowed<OwnedOperation>, in list: List) -> Int32 {
    if list == .held { return Self.insert(operation, in: &held) }
    return Self.insert(operation, in: &blocked)
  }

  private static func insert(_ operation: Borrowed<OwnedOperation>, in turns: inout Turns) -> Int32 {
    turns.operations.append(operation)
    return Int32(truncatingIfNeeded: turns.operations.count - 1)
  }

  /// - Returns: the operation that has got the place.
  mutating func remove(at place: Int32, of list: List) -> Borrowed<OwnedOperation>? {
    if list == .held { return Self.remove(at: Int(place), of: &held) }
    return Self.remove(at: Int(place), of: &blocked)
  }

  private static func remove(at place: Int, of turns: inout Turns) -> Borrowed<OwnedOperation>? {
    let last = turns.operations.removeLast()
    guard place < turns.operations.count else { return nil }
    turns.operations[place] = last
    return last
  }

  /// The next of the list in turn.
  mutating func next(_ limit: Int, of list: List) -> [OwnedOperation] {
    if list == .held { return Self.next(limit, of: &held) }
    return Self.next(limit, of: &blocked)
  }

  private static func next(_ limit: Int, of turns: inout Turns) -> [OwnedOperation] {
    let count = min(limit, turns.operations.count)
    return (0..<count).map { _ in
      if turns.next >= turns.operations.count { turns.next = 0 }
      defer { turns.next += 1 }
      return turns.operations[turns.next].object
    }
  }

  // MARK: At once

  /// - Returns: when it is to be asked, at the latest.
  mutating func hurry(_ operation: OwnedOperation, now: UInt64) -> UInt64 {
    urgent[ObjectIdentifier(operation)] = operation
    lastChange = now
    return max(now, lastRound + ReadinessTimer.leastInterval)
  }

  mutating func takeUrgent() -> [OwnedOperation] {
    guard !urgent.isEmpty else { return [] }
    defer { urgent = [:] }
    return Array(urgent.values)
  }

  // MARK: Time

  mutating func noteChange(_ now: UInt64) { lastChange = now }

  /// A round of asking is over.
  /// - Returns: how long to wait for the next; nil if nobody is watched.
  mutating func endRound(begunAt start: UInt64, now: UInt64) -> UInt64? {
    lastRound = now
    guard !isEmpty else { return nil }
    return ReadinessTimer.interval(sinceLastChange: now - min(now, lastChange), lastRoundTook: now - min(now, start))
  }

  /// Made when somebody is watched for the first time.
  mutating func timer(for queue: QueueReference?) -> ReadinessTimer? {
    if timer == nil, let queue { timer = ReadinessTimer(queue) }
    return timer
  }

  var existingTimer: ReadinessTimer? { timer }
}

/// When the watched operations of one queue are asked. It has a thread of its own when it is due: an answer may take its time.
///
/// `next` is the deadline that the source is set to, or later than any. A call for an earlier one sets the source; a call for a later one
/// does nothing.
/// `begin` forgets the deadline before the round looks at anything, so that a call that comes later is heard.
final class ReadinessTimer: Sendable {
  /// Between two rounds.
  static let leastInterval: UInt64 = 1_000_000
  static let interval: UInt64 = 50_000_000
  static let longInterval: UInt64 = 1_000_000_000
  /// How long nothing must have changed for the longer interval.
  static let quietTime: UInt64 = 60_000_000_000
  /// How many of a list are asked in one round at least, for each `interval`, and how long to go on with more. Most of a question's time
  /// are cache misses: 10,000 plain operations
  /// that wait are to cost less than 1 % of a processor, and a timer that fires costs half of that.
  private static let turnsPerInterval = 500
  private static let timePerInterval: UInt64 = 200_000
  /// A round that takes long is followed by so many times as long a pause, up to the longer interval.
  private static let pauseFactor: UInt64 = 20

  private let timer: UptimeTimer
  private let next = Locked(UInt64.max)

  init(_ queue: QueueReference) {
    // A serial queue of its own: GCD gives those a thread even while all of the pool's are blocked.
    timer = UptimeTimer(on: DispatchQueue(label: "OwnedOperations.readiness", qos: .userInitiated))
    timer.setHandler { queue.queue?.askWatched() }
    timer.set(.distantFuture)
    timer.activate()
  }

  deinit { timer.cancel() }

  /// In nanoseconds of `DispatchTime`'s clock.
  func ask(noLaterThan deadline: UInt64) {
    next.withLock { next in
      guard deadline < next else { return }
      next = deadline
      timer.set(DispatchTime(uptimeNanoseconds: deadline))
    }
  }

  func begin() {
    if !Mutation.readinessIsAskedOnce.isOn { next.withLock { $0 = .max } }
  }

  static func interval(sinceLastChange time: UInt64, lastRoundTook duration: UInt64) -> UInt64 {
    let usual = time > quietTime ? longInterval : interval
    return max(usual, min(longInterval, duration.multipliedReportingOverflow(by: pauseFactor).partialValue))
  }

  /// How much of each list to ask in a round.
  struct Share: Equatable {
    let turns: Int
    let time: UInt64
  }

  static func share(sinceLastChange time: UInt64) -> Share {
    let intervals = time > quietTime ? longInterval / interval : 1
    return Share(turns: turnsPerInterval * Int(intervals), time: timePerInterval * intervals)
  }
}

extension QueueState {
  /// Plain operations that wait for something are watched.
  mutating func watch(_ operations: [OwnedOperation], _ followUp: inout FollowUp) {
    guard !operations.isEmpty else { return }
    for operation in operations {
      if let place = self.operations.place(of: operation) { watch(place, in: .blocked) }
    }
    let now = Uptime.now
    watched.noteChange(now)
    followUp.ask(isDriven ? nil : watched.timer(for: reference), noLaterThan: now + ReadinessTimer.interval)
  }

  /// The operation is to be asked soon.
  mutating func hurry(_ operation: OwnedOperation, now: UInt64, _ followUp: inout FollowUp) {
    let deadline = watched.hurry(operation, now: now)
    followUp.ask(isDriven ? nil : watched.timer(for: reference), noLaterThan: deadline)
  }

  /// See `OwnerScopedQueue.holdBack`.
  fileprivate mutating func holdBack(
    _ operation: OwnedOperation, at level: Int, isHeldBack: Bool, now: UInt64, _ followUp: inout FollowUp
  ) {
    guard let place = operations.place(of: operation) else { return }
    operations[place].levels &= ~(1 << level)
    if operation.isWaitingForScheduler, !Mutation.heldBackMissesTheNews.isOn {
      // It was blocked, and has become ready, since it answered.
      makeReady(place)
    } else if isHeldBack {
      watch(place, in: .held)
      // What Foundation has yet to tell a plain operation of may be all that holds it back.
      hurry(operation, now: now, &followUp)
    }
  }

  /// Does nothing for one that is in a list already.
  mutating func watch(_ place: Int, in list: WatchedOperations.List) {
    guard operations[place].watchList == .none else { return }
    operations[place].watchPlace = watched.insert(operations[place].unretainedOperation, in: list)
    operations[place].watchList = list
  }

  mutating func unwatch(_ place: Int) {
    let entry = operations[place]
    operations[place].watchList = .none
    unwatch(entry)
  }

  /// The operation has left the registry, or its entry says that it is not watched.
  mutating func unwatch(_ entry: OperationRegistry.Entry) {
    guard entry.watchList != .none, let moved = watched.remove(at: entry.watchPlace, of: entry.watchList) else { return }
    moved.with { moved in
      if let place = operations.place(of: moved) { operations[place].watchPlace = entry.watchPlace }
    }
  }
}

extension OwnerScopedQueue {
  private static let operationsPerHold = 64

  // MARK: Watching

  /// The record's operation says itself that it is not ready.
  func holdBack(_ operation: OwnedOperation, at level: Int) {
    let isHeldBack = operation.holdBack()
    let now = Uptime.now
    core.mutate { state, followUp in state.holdBack(operation, at: level, isHeldBack: isHeldBack, now: now, &followUp) }
  }

  /// Any thread: the operation may answer otherwise from now on.
  func operationMayHaveBecomeReady(_ operation: OwnedOperation) {
    let now = Uptime.now
    core.mutate { state, followUp in
      guard let place = state.operations.place(of: operation), state.operations[place].watchList != .none else { return }
      state.hurry(operation, now: now, &followUp)
    }
  }

  // MARK: Asking

  /// A round. On the timer's thread.
  func askWatched() {
    let start = Uptime.now
    let (timer, urgent, sinceLastChange) = core.note { state in
      state.watched.existingTimer?.begin()
      return (state.watched.existingTimer, state.watched.takeUrgent(), start - min(start, state.watched.lastChange))
    }
    for operation in urgent { ask(operation) }
    let share = ReadinessTimer.share(sinceLastChange: sinceLastChange)
    ask(.held, share)
    ask(.blocked, share)
    let now = Uptime.now
    let interval = core.note { $0.watched.endRound(begunAt: start, now: now) }
    if let interval { timer?.ask(noLaterThan: now + interval) }
  }

  private func ask(_ list: WatchedOperations.List, _ share: ReadinessTimer.Share) {
    let end = Uptime.now + share.time
    let count = core.read { $0.watched.count(list) }
    var asked = 0
    while asked < count, asked < share.turns || Uptime.now < end {
      let operations = core.note { $0.watched.next(min(count - asked, Self.operationsPerHold), of: list) }
      guard !operations.isEmpty else { return }
      asked += operations.count
      for operation in operations { ask(operation) }
    }
  }

  private func ask(_ operation: OwnedOperation) {
    let word = operation.load()
    if word.phase == .pending, !word.isReady {
      // What Foundation holds to be ready is ready: it was cancelled, or its dependencies were removed behind our back.
      guard let proxy = operation as? PlainOperationProxy, proxy.operation.isReady else { return }
      noteChange()
      proxy.dropDependencies()
      return
    }
    guard word.phase != .pending || operation.answersReady else { return }
    if operation.announceAgain() {
      noteChange()
      operationDidBecomeReady(operation)
      return
    }
    // It has been started, or is blocked again; who unblocks it makes the record.
    core.note { state in
      guard let place = state.operations.place(of: operation), !operation.isWatched else { return }
      state.unwatch(place)
    }
  }

  private func noteChange() {
    let now = Uptime.now
    core.note { $0.watched.noteChange(now) }
  }
}
