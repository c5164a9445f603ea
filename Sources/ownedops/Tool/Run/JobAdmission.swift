import Foundation

/// Lets no more jobs run than their owners, the processors, the memory and the load of the machine allow.
///
/// Rules:
/// - A job arrives when it is ready. It waits by priority, then by arrival: first for its owner, if that limits its jobs, then for a share
///   of the machine. Nobody overtakes the first in a line.
/// - Who is let in has its share until it is given back, once.
/// - One that wants more than there is gets all there is, and so runs alone.
/// - A load above the limit lets nobody in while anybody runs. It is to be looked at again after a while.
struct JobAdmission {
  struct Share: Equatable, Sendable {
    var processors: Int
    var memory: Int
  }

  /// Jobs of one owner.
  private struct Gate {
    let limit: Int
    /// Let in, or in the line for the machine.
    var count = 0
    var line = WaitingLine()
  }

  private let jobs: [RunFile.Job]
  private let all: Share
  private let mostLoad: Double?
  private let load: @Sendable () -> Double
  private var gates: [Gate?]
  private var left: Share
  private var running = 0
  private var line = WaitingLine()
  /// Somebody could come in if the load were less.
  private(set) var isHeldByLoad = false

  /// - Parameter load: of the machine, now.
  init(
    _ file: RunFile, _ all: Share, mostLoad: Double?, load: @escaping @Sendable () -> Double = { JobAdmission.currentLoad }
  ) {
    jobs = file.jobs
    self.all = all
    self.mostLoad = mostLoad
    self.load = load
    gates = file.owners.map { owner in owner.mostConcurrent.map { Gate(limit: $0) } }
    left = all
  }

  /// The load of the last minute, as the system counts it; 0 where it does not tell.
  static var currentLoad: Double {
    var load = 0.0
    return getloadavg(&load, 1) == 1 ? load : 0
  }

  mutating func arrive(_ place: Int) {
    let level = jobs[place].level
    if let owner = jobs[place].owner, let gate = gates[owner] {
      guard gate.count < gate.limit else {
        gates[owner]?.line.append(place, level: level)
        return
      }
      gates[owner]?.count += 1
    }
    line.append(place, level: level)
  }

  /// The next to be let in, with its share; nil if there is nobody, or no room.
  /// - Parameter isOver: whether one has ended in the line; it is passed over.
  mutating func next(unless isOver: (Int) -> Bool) -> Int? {
    isHeldByLoad = false
    while let place = line.first {
      guard !isOver(place) else {
        line.removeFirst()
        leaveGate(place)
        continue
      }
      let share = share(of: place)
      guard share.processors <= left.processors, share.memory <= left.memory else { return nil }
      if let mostLoad, running > 0, load() >= mostLoad {
        isHeldByLoad = true
        return nil
      }
      line.removeFirst()
      left.processors -= share.processors
      left.memory -= share.memory
      running += 1
      return place
    }
    return nil
  }

  /// One that was let in has ended.
  mutating func giveBack(_ place: Int) {
    let share = share(of: place)
    left.processors += share.processors
    left.memory += share.memory
    running -= 1
    leaveGate(place)
  }

  private func share(of place: Int) -> Share {
    Share(processors: min(jobs[place].processors, all.processors), memory: min(jobs[place].memory, all.memory))
  }

  private mutating func leaveGate(_ place: Int) {
    guard let owner = jobs[place].owner, gates[owner] != nil else { return }
    if let next = gates[owner]?.line.removeFirst() {
      line.append(next, level: jobs[next].level)
    } else {
      gates[owner]?.count -= 1
    }
  }
}

/// Jobs in the order of their priorities, then of their arrival.
struct WaitingLine {
  private var levels: [[Int]] = Array(repeating: [], count: 5)
  private var heads = Array(repeating: 0, count: 5)

  private var firstLevel: Int? { levels.indices.first { heads[$0] < levels[$0].count } }

  var first: Int? { firstLevel.map { levels[$0][heads[$0]] } }

  mutating func append(_ place: Int, level: Int) { levels[level].append(place) }

  @discardableResult
  mutating func removeFirst() -> Int? {
    guard let level = firstLevel else { return nil }
    let place = levels[level][heads[level]]
    heads[level] += 1
    if heads[level] == levels[level].count {
      levels[level].removeAll()
      heads[level] = 0
    }
    return place
  }
}

extension RunFile.Job {
  /// Most urgent first.
  fileprivate var level: Int {
    switch priority {
    case .veryHigh: 0
    case .high: 1
    case .low: 3
    case .veryLow: 4
    default: 2
    }
  }
}
