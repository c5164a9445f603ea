import Foundation

/// What left its job's process group: a daemon, a session of its own. Where orphans become our children they are found at the end, asked to
/// end, and after the grace made to.
struct Orphans: Sendable {
  /// The others that were there before the run: an `exec` gives a program the children of the one before it.
  private let hadOthers: Bool
  private let processGuard: ProcessGuard?

  /// To be made before the first command, and after the guard.
  init(processGuard: ProcessGuard?) {
    self.processGuard = processGuard
    hadOthers = !ProcessTable().descendants(of: getpid(), except: Self.ours(processGuard)).isEmpty
  }

  private static func ours(_ processGuard: ProcessGuard?) -> Set<pid_t> {
    OutputSink.processes.union(processGuard.map { [$0.process] } ?? [])
  }

  private static let pause = DispatchTimeInterval.milliseconds(20)

  /// Returns when none is left.
  /// - Parameters:
  ///   - isHurried: asked again and again; once true, there is no grace left.
  ///   - count: told of how many it waits for.
  func end(grace: Duration, isHurried: () -> Bool, count: (Int) -> Void) {
    let exits = ChildReaper.shared.announceExits()
    var ends = ForcedEnds<ProcessTable.Process>()
    while true {
      let left = remaining().filter { !ends.hasGivenUp($0) }
      count(left.count)
      guard !left.isEmpty else { return }
      let grace = isHurried() ? .zero : grace
      for process in left { ends.end(process, grace: grace) }
      _ = exits.wait(timeout: .now() + Self.pause)
    }
  }

  /// If there were others, only what is known to be this run's: what comes from them may be our child by now.
  private func remaining() -> Set<ProcessTable.Process> {
    let all = ProcessTable().descendants(of: getpid(), except: Self.ours(processGuard))
    guard hadOthers else { return all }
    return all.filter { process in processGuard?.mark.isBorne(by: process.number) == true }
  }
}
