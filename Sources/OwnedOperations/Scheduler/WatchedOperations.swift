/// The operations that nobody announces: those whose own `isReady` holds them back, and plain ones that wait for dependencies.
///
/// ## Protocol
///
/// Of an operation that is attached and pending, exactly one of these holds, or is being made true by the thread that broke it:
/// - `announced` is set, and a ready list has a work item of it;
/// - it waits for dependencies; the last one to finish sets `announced`, and who turns the bit makes the item;
/// - `watched` is set, and it stands in `held`.
///
/// Rules:
/// - Who runs a work item clears `announced` in one exchange: to start (`startIfReady`), or to hold back (`holdBack`), which sets
///   `watched`.
/// - The exchange for a start decides: a dependency that is added later comes too late.
/// - Who asks, and hears yes, clears `watched` and sets `announced` if no dependency is left, in one exchange (`announceAgain`).
/// - An operation in `held` is taken out, under the queue's lock, when a work item is made, it finishes, or `watched` is clear.
/// - Plain operations in `blocked` wait for dependencies of their proxies. They are asked because nobody tells us of a cancellation.
/// - A plain operation that calls itself ready loses its proxy's dependencies; so it is announced like any other.
///
/// Asking runs code of the user's. It happens on the thread of an `Alarm`, outside every lock, and never on a worker that looks for work.
/// An answer that blocks holds up its own queue's questions only.
///
/// When they are asked:
/// - one that was just held back, or has announced a change: within a millisecond;
/// - all, every 50 ms; every second once nothing has changed for a minute;
/// - more than 500 of one list: by turns, 500 every 50 ms (10,000 every second), and as many more as 200 us (4 ms) allow.
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
    return max(now, lastRound + ReadinessPace.leastInterval)
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
    return ReadinessPace.interval(sinceLastChange: now - min(now, lastChange), lastRoundTook: now - min(now, start))
  }
}
