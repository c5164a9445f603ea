/// Which jobs may begin, by what has become of those that they come after. A job that waits is a few numbers here, and nothing else: it
/// gets an operation when its turn has come.
///
/// Rules:
/// - `waitsFor` of a job counts those that it comes after and that have not ended. At 0 it is ready, and handed out once.
/// - When a job has ended without success, those that come after it end, too, but for those that run always.
/// - A job ends once, and what comes second is passed over. Only the one who takes a job makes an operation of it.
/// - What follows from an end is worked off with it, without recursion: chains are as long as they like.
final class JobSchedule: Sendable {
  enum End: Equatable, Sendable {
    case succeeded
    case failed(String)
    /// - hasBegun: there was a command of it, or nearly; it has been shown.
    case cancelled(String, hasBegun: Bool)
    /// A job that it comes after, given by its place, did not succeed.
    case blocked(Int)
  }

  /// What follows from an end.
  struct Step {
    /// Jobs that are ready now.
    var ready: [Int] = []
    /// All jobs have ended. Told once.
    var isLast = false
  }

  private struct State {
    var waitsFor: [Int32]
    var ends: [End?]
    var isTaken: [Bool]
    var left: Int
    /// When they were cancelled, on the recorder's clock; empty if there is none.
    var cancellationTimes: [Double] = []
  }

  /// Those that come after job `n` are `followers[firstFollower[n]..<firstFollower[n + 1]]`.
  private let firstFollower: [Int32]
  private let followers: [Int32]
  private let runsAlways: [Bool]
  private let now: (@Sendable () -> Double)?
  private let state: Guarded<State>

  /// - Parameter now: for pictures of what was cancelled.
  init(_ jobs: [RunFile.Job], now: (@Sendable () -> Double)?) {
    var first = [Int32](repeating: 0, count: jobs.count + 1)
    for job in jobs { for other in job.after { first[other + 1] += 1 } }
    for place in jobs.indices { first[place + 1] += first[place] }
    var next = first
    var followers = [Int32](repeating: 0, count: Int(first[jobs.count]))
    for (place, job) in jobs.enumerated() {
      for other in job.after {
        followers[Int(next[other])] = Int32(place)
        next[other] += 1
      }
    }
    firstFollower = first
    self.followers = followers
    runsAlways = jobs.map(\.runsAlways)
    self.now = now
    state = Guarded(
      State(
        waitsFor: jobs.map { Int32($0.after.count) }, ends: Array(repeating: nil, count: jobs.count),
        isTaken: Array(repeating: false, count: jobs.count), left: jobs.count,
        cancellationTimes: now == nil ? [] : Array(repeating: 0, count: jobs.count)))
  }

  /// Those that come after nothing, and have not been cancelled meanwhile. To be called once.
  func begin(_ jobs: [RunFile.Job]) -> Step {
    state.withLock { state in Step(ready: jobs.indices.filter { jobs[$0].after.isEmpty && state.ends[$0] == nil }) }
  }

  /// Whoever is told true is to see to its end.
  func take(_ place: Int) -> Bool {
    state.withLock { state in
      guard state.ends[place] == nil, !state.isTaken[place] else { return false }
      state.isTaken[place] = true
      return true
    }
  }

  func end(_ place: Int, _ end: End) -> Step { state.withLock { self.end([(place, end)], &$0) } }

  /// Those of them that nobody has taken. What comes after them, and is one of them, is cancelled for the same reason.
  /// - Parameter places: who may be one of them; nil: all.
  func cancel(among places: [Int]? = nil, _ reason: (_ place: Int) -> String?) -> Step {
    state.withLock { state in
      var cancelled: [(place: Int, end: End)] = []
      for place in places ?? Array(state.ends.indices) where state.ends[place] == nil && !state.isTaken[place] {
        if let reason = reason(place) { cancelled.append((place, .cancelled(reason, hasBegun: false))) }
      }
      return end(cancelled, &state)
    }
  }

  func hasEnded(_ place: Int) -> Bool { state.withLock { $0.ends[place] != nil } }

  /// What has become of all; nil of those that have not ended.
  var ends: [End?] { state.withLock { $0.ends } }

  /// When a job that never began was cancelled; nil if nobody wanted to know.
  func cancellationTime(of place: Int) -> Double? {
    state.withLock { $0.cancellationTimes.isEmpty ? nil : $0.cancellationTimes[place] }
  }

  private func end(_ first: [(place: Int, end: End)], _ state: inout State) -> Step {
    var step = Step()
    // All of them before anything follows from one.
    var rest: [Int] = []
    for (place, end) in first where mark(place, end, &state) { rest.append(place) }
    let hadEnded = rest.isEmpty
    var next = 0
    while next < rest.count {
      let place = rest[next]
      next += 1
      for follower in followers[Int(firstFollower[place])..<Int(firstFollower[place + 1])] {
        let follower = Int(follower)
        state.waitsFor[follower] -= 1
        if state.ends[place] != .succeeded, !runsAlways[follower] {
          if mark(follower, .blocked(place), &state) { rest.append(follower) }
        } else if state.waitsFor[follower] == 0, state.ends[follower] == nil {
          step.ready.append(follower)
        }
      }
    }
    step.isLast = state.left == 0 && !hadEnded
    return step
  }

  private func mark(_ place: Int, _ end: End, _ state: inout State) -> Bool {
    guard state.ends[place] == nil else { return false }
    state.ends[place] = end
    state.left -= 1
    if let now { state.cancellationTimes[place] = now() }
    return true
  }
}
