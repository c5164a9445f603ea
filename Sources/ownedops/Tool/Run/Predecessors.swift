import Foundation

/// What runners that have died have left.
enum Predecessors {
  /// Blocks until no keeper of a dead runner is there.
  /// - Parameter goesOn: asked again and again meanwhile; false: it is waited for no longer.
  static func waitForKeepers(of journal: Journal, isRunning: (MachineProcess) -> Bool, goesOn: () -> Bool) {
    for run in journal.runs where !run.isKept {
      guard let keeper = run.run.keeper, keeper.isHere, isRunning(keeper) else { continue }
      var pause: UInt32 = 1_000
      var waited: UInt32 = 0
      while isRunning(keeper) {
        usleep(pause)
        guard goesOn() else { return }
        if waited <= 300_000, waited + pause > 300_000 {
          let names = journal.jobs.filter(\.isUnderWay).map(\.definition.name)
          let what = names.isEmpty ? "what an earlier runner has left" : Resumption.list(names)
          Console.shared.note("ownedops: waiting for \(what), which an earlier runner has started; kill \(keeper.number) ends that")
        }
        waited = min(waited + pause, 1_000_000)
        pause = min(pause * 2, 50_000)
      }
    }
  }

  /// Ends what the commands of killed keepers have left running on this machine. Blocks.
  /// - Parameter goesOn: asked again and again meanwhile; false: no more is ended.
  static func endLeftovers(of runs: [JournalRun], _ journal: Journal, goesOn: () -> Bool) {
    for run in runs where run.keeper?.isHere == true {
      let groups = run.keepsOrphans ? Set(journal.jobs.filter(\.isUnderWay).compactMap(\.process)) : nil
      RunMark(run.identifier).endBearers(grace: run.grace, only: groups, goesOn: goesOn)
    }
  }
}
