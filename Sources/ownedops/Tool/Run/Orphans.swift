import Foundation

/// What left its job's process group: a daemon, a session of its own. Where orphans become our children they are found at the end, asked to
/// end, and after the grace made to.
struct Orphans: Sendable {
  /// The others that were there before the run: an `exec` gives a program the children of the one before it.
  private let others: Set<ProcessTable.Process>
  private let processGuard: ProcessGuard?

  /// To be made before the first command, and after the guard.
  init(processGuard: ProcessGuard?) {
    self.processGuard = processGuard
    others = ProcessTable().descendants(of: getpid(), except: Self.ours(processGuard))
  }

  private static func ours(_ processGuard: ProcessGuard?) -> Set<pid_t> {
    OutputSink.processes.union(processGuard.map { [$0.process] } ?? [])
  }

  private static let pause = DispatchTimeInterval.milliseconds(20)

  /// How many times what can't be told from others is looked at when nothing else is left. Not more, since others may have been given an
  /// empty environment.
  private static let mostLooks = 50

  /// Returns when none is left.
  /// - Parameters:
  ///   - isHurried: asked again and again; once true, there is no grace left.
  ///   - count: told of how many it waits for.
  func end(grace: Duration, isHurried: () -> Bool, count: (Int) -> Void) {
    let exits = ChildReaper.shared.announceExits()
    var ends = ForcedEnds<ProcessTable.Process>()
    var looks = 0
    while true {
      let (all, isComplete) = remaining()
      let left = all.filter { !ends.hasGivenUp($0) }
      count(left.count)
      looks = left.isEmpty ? looks + 1 : 0
      guard !left.isEmpty || !isComplete && looks < Self.mostLooks else { return }
      let grace = isHurried() ? .zero : grace
      for process in left { ends.end(process, grace: grace) }
      _ = exits.wait(timeout: .now() + Self.pause)
    }
  }

  /// If there were others, only what is known to be this run's: what comes from them may be our child by now.
  /// - Returns: not complete if there may be more: what replaces itself has no environment for a moment.
  private func remaining() -> (processes: Set<ProcessTable.Process>, isComplete: Bool) {
    let all = ProcessTable().descendants(of: getpid(), except: Self.ours(processGuard))
    guard !others.isEmpty else { return (all, true) }
    guard let mark = processGuard?.mark else { return ([], true) }
    var processes: Set<ProcessTable.Process> = []
    var isComplete = true
    for process in all.subtracting(others) {
      switch mark.isBorneIfShown(by: process.number) {
      case true?: processes.insert(process)
      case false?: break
      case nil: isComplete = false
      }
    }
    return (processes, isComplete)
  }
}
