import Foundation
import OwnedOperations

/// Lets jobs into the queue as far as processors, memory and the load of the machine allow.
///
/// Rules:
/// - A job comes when it is ready. It waits by priority, then by arrival; nobody overtakes the first in the line.
/// - A job takes its share before it is let in, and gives it back once: when it has run, or is cancelled before it has begun.
/// - One that wants more than there is gets all there is, and so runs alone.
/// - A load above the limit lets nobody in while anybody runs; it is looked at again after a while.
final class ResourceGate: Sendable {
  struct Share: Equatable, Sendable {
    var processors: Int
    var memory: Int
  }

  private struct State {
    var left: Share
    var running = 0
    var line = WaitingLine()
    var isLooking = false
  }

  private let all: Share
  private let mostLoad: Double?
  private let load: @Sendable () -> Double
  private let letIn: @Sendable (JobOperation) -> Bool
  private let state: Guarded<State>
  private static let pause = DispatchTimeInterval.milliseconds(500)

  /// - Parameters:
  ///   - load: of the machine, now.
  ///   - letIn: called under no lock; returns false if the job's owner has ended, and the job with it.
  init(
    _ all: Share, mostLoad: Double?, load: @escaping @Sendable () -> Double = { ResourceGate.currentLoad },
    letIn: @escaping @Sendable (JobOperation) -> Bool
  ) {
    self.all = all
    self.mostLoad = mostLoad
    self.load = load
    self.letIn = letIn
    state = Guarded(State(left: all))
  }

  /// Of the last minute, as the system counts it; 0 where it does not tell.
  static var currentLoad: Double {
    var load = 0.0
    return getloadavg(&load, 1) == 1 ? load : 0
  }

  /// A job that is ready, or has been let in by its owner's gate.
  func arrive(_ job: JobOperation) {
    state.withLock { $0.line.append(job) }
    advance()
  }

  /// To be called with each share that ``JobOperation/giveBackShare()`` has given.
  func giveBack(_ share: Share) {
    state.withLock { state in
      state.left.processors += share.processors
      state.left.memory += share.memory
      state.running -= 1
    }
    advance()
  }

  /// Lets in what may come in. To be called when one in the line has been cancelled, too.
  func advance() {
    while true {
      switch state.withLock(next) {
      case .nobody: return
      case .cancelled(let job): job.start()
      case .letIn(let job, let share):
        job.takeShare(share)
        if letIn(job) { continue }
        if let share = job.giveBackShare() { giveBack(share) }
      }
    }
  }

  private enum Next {
    case nobody
    case letIn(JobOperation, Share)
    /// It finishes without having run.
    case cancelled(JobOperation)
  }

  private func next(_ state: inout State) -> Next {
    guard let job = state.line.first else { return .nobody }
    guard !job.isCancelled else {
      state.line.removeFirst()
      return .cancelled(job)
    }
    let share = Share(processors: min(job.job.processors, all.processors), memory: min(job.job.memory, all.memory))
    guard share.processors <= state.left.processors, share.memory <= state.left.memory else { return .nobody }
    if let mostLoad, state.running > 0, load() >= mostLoad {
      lookAgain(&state)
      return .nobody
    }
    state.line.removeFirst()
    state.left.processors -= share.processors
    state.left.memory -= share.memory
    state.running += 1
    return .letIn(job, share)
  }

  private func lookAgain(_ state: inout State) {
    guard !state.isLooking else { return }
    state.isLooking = true
    DispatchQueue.global().asyncAfter(deadline: .now() + Self.pause) { [weak self] in
      guard let self else { return }
      self.state.withLock { $0.isLooking = false }
      self.advance()
    }
  }
}

/// Jobs in the order of their priorities, then of their arrival.
struct WaitingLine {
  private var levels: [[JobOperation]] = Array(repeating: [], count: 5)
  private var heads = Array(repeating: 0, count: 5)

  private var firstLevel: Int? { levels.indices.first { heads[$0] < levels[$0].count } }

  var first: JobOperation? { firstLevel.map { levels[$0][heads[$0]] } }

  mutating func append(_ job: JobOperation) { levels[job.level].append(job) }

  @discardableResult
  mutating func removeFirst() -> JobOperation? {
    guard let level = firstLevel else { return nil }
    let job = levels[level][heads[level]]
    heads[level] += 1
    if heads[level] == levels[level].count {
      levels[level].removeAll()
      heads[level] = 0
    }
    return job
  }
}
