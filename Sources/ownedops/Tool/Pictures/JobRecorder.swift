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
  }

  struct Record: Sendable {
    var events: [Event] = []
    /// Instants worth a line: an owner's end.
    var instants: [(name: String, time: Double)] = []
    fileprivate var freeLanes: [Bool] = []
  }

  private let origin = DispatchTime.now().uptimeNanoseconds
  private let state = Guarded(Record())

  var record: Record { state.withLock { $0 } }

  private var now: Double { Double(DispatchTime.now().uptimeNanoseconds - origin) / 1e9 }

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
      state.events.append(Event(name: name, owner: owner, lane: mark.lane, start: mark.start, end: now, outcome: outcome))
    }
  }

  /// For a job that never ran.
  func cancelled(name: String, owner: String) {
    state.withLock { state in
      let now = now
      state.events.append(Event(name: name, owner: owner, lane: nil, start: now, end: now, outcome: .cancelled))
    }
  }

  func mark(_ name: String) {
    state.withLock { $0.instants.append((name, now)) }
  }
}

/// `--timeline` and `--trace`.
struct PictureOptions: Sendable {
  private var timeline: String?
  private var trace: String?

  init() {}

  init(_ arguments: Arguments) {
    timeline = arguments.text("--timeline")
    trace = arguments.text("--trace")
  }

  /// Nil if no picture is wanted.
  var recorder: JobRecorder? { timeline == nil && trace == nil ? nil : JobRecorder() }

  func write(_ recorder: JobRecorder?) throws(UsageError) {
    guard let record = recorder?.record else { return }
    if let timeline { try RawFile.create(timeline, TimelinePicture(record).svg) }
    if let trace { try RawFile.create(trace, TraceDocument(record).json) }
  }
}
