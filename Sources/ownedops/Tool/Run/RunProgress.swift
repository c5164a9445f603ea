import Foundation

/// How far a run has come, in one line.
struct RunProgress: Equatable {
  struct Running: Equatable {
    let name: String
    let seconds: Double
  }

  let done: Int
  let total: Int
  var failed = 0
  /// Those that have run longest first.
  let running: [Running]

  /// For example `[12/40] 1 failed, 3 running: link 63 s, test 2 s, +1`.
  /// - Parameter width: in columns. Names that would go beyond it are counted instead, but for the beginning of the first. The line may
  ///   still be longer where not even numbers fit.
  func line(width: Int) -> String {
    var line = "[\(Shown.count(done))/\(Shown.count(total))]"
    if failed > 0 { line += " \(Shown.count(failed)) failed," }
    line += " \(Shown.count(running.count)) running"
    for (place, job) in running.enumerated() {
      let name = Array(job.name.utf8).escapedName
      let time = " \(Int(job.seconds)) s"
      let left = running.count - place - 1
      let tail = left > 0 ? ", +\(left)" : ""
      let room = width - 1 - line.columns - 2 - time.count - tail.count
      guard name.columns <= room else {
        if place > 0 { return line + ", +\(left + 1)" }
        return room < Self.shortestName ? line : "\(line): \(name.prefix(columns: room - 1))…\(time)\(tail)"
      }
      line += (place == 0 ? ": " : ", ") + name + time
    }
    return line
  }

  /// Of which less would say nothing.
  private static let shortestName = 6
}

/// Counts what has begun and ended.
final class RunCounter: Sendable {
  private struct State {
    var done = 0
    var failed = 0
    var running: [Int: ContinuousClock.Instant] = [:]
  }

  private let total: Int
  private let name: @Sendable (Int) -> String
  private let state: Guarded<State>

  /// - Parameter done: how many of them were done before.
  init(total: Int, done: Int = 0, name: @escaping @Sendable (_ place: Int) -> String) {
    self.total = total
    self.name = name
    state = Guarded(State(done: done))
  }

  func begin(_ place: Int) { state.withLock { $0.running[place] = .now } }

  func end(_ place: Int, hasFailed: Bool) {
    state.withLock { state in
      state.running[place] = nil
      state.done += 1
      if hasFailed { state.failed += 1 }
    }
  }

  var progress: RunProgress {
    let now = ContinuousClock.now
    let state = state.withLock { $0 }
    let running = state.running.sorted { ($0.value, $0.key) < ($1.value, $1.key) }.map { place, start in
      RunProgress.Running(name: name(place), seconds: (now - start).inSeconds)
    }
    return RunProgress(done: state.done, total: total, failed: state.failed, running: running)
  }
}
