import Dispatch
import Foundation

/// What ran when, on which worker: for pictures. A worker is the lowest number that is free when a job begins.
final class JobRecorder: Sendable {
  enum Outcome: String, Sendable {
    case succeeded, failed, cancelled
  }

  struct Mark: Sendable {
    let lane: Int
    let start: Double
  }

  struct Event: Sendable {
    let name: String
    let owner: String
    /// Nil for what never ran.
    let lane: Int?
    let start: Double
    let end: Double
    let outcome: Outcome
    /// How many jobs it stands for.
    var count = 1
    /// The names of those that it had to wait for.
    var after: [String] = []
    var command: [String] = []
    var exit: ChildReaper.Exit?
  }

  fileprivate struct Kind: Hashable {
    let name: String
    let owner: String
  }

  struct Record: Sendable {
    var events: [Event] = []
    /// Instants worth a line: an owner's end.
    var instants: [(name: String, time: Double)] = []
    fileprivate var freeLanes: [Bool] = []
    /// Jobs that were announced and have not ended.
    fileprivate var expected: [Kind: Int] = [:]
  }

  private let origin = DispatchTime.now().uptimeNanoseconds
  private let state = Guarded(Record())

  var record: Record { state.withLock { $0 } }

  /// Instead of what it has recorded.
  func replace(with record: Record) { state.withLock { $0 = record } }

  var now: Double { Double(DispatchTime.now().uptimeNanoseconds - origin) / 1e9 }

  /// Announces a job, for ``cancelExpected()``.
  func expect(name: String, owner: String) {
    state.withLock { $0.expected[Kind(name: name, owner: owner), default: 0] += 1 }
  }

  func begin() -> Mark {
    state.withLock { state in
      let lane = state.freeLanes.firstIndex(of: true) ?? state.freeLanes.count
      if lane == state.freeLanes.count { state.freeLanes.append(false) } else { state.freeLanes[lane] = false }
      return Mark(lane: lane, start: now)
    }
  }

  func end(_ mark: Mark, name: String, owner: String, outcome: Outcome) {
    state.withLock { state in
      state.freeLanes[mark.lane] = true
      state.expected[Kind(name: name, owner: owner)]? -= 1
      state.events.append(Event(name: name, owner: owner, lane: mark.lane, start: mark.start, end: now, outcome: outcome))
    }
  }

  /// For a job that never ran.
  /// - Parameter time: when it was cancelled; now, if that isn't known.
  func cancelled(name: String, owner: String, at time: Double?) {
    state.withLock { state in
      let time = time ?? now
      state.events.append(Event(name: name, owner: owner, lane: nil, start: time, end: time, outcome: .cancelled))
    }
  }

  /// What was announced and has not run was cancelled at the last instant that was marked. To be called when nothing runs any more.
  func cancelExpected() {
    state.withLock { state in
      let time = state.instants.last?.time ?? now
      let kinds = state.expected.filter { $0.value > 0 }.sorted { ($0.key.owner, $0.key.name) < ($1.key.owner, $1.key.name) }
      for (kind, count) in kinds {
        state.events.append(
          Event(name: kind.name, owner: kind.owner, lane: nil, start: time, end: time, outcome: .cancelled, count: count))
      }
      state.expected = [:]
    }
  }

  func mark(_ name: String) {
    state.withLock { $0.instants.append((name, now)) }
  }
}
