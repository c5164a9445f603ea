/// Which jobs wait in Slurm for more than their turn, and nothing else says so. Some are held by somebody, until they are let go. Others
/// can't be run by the cluster as they are, until somebody changes the one or the other.
struct SlurmHeldJobs {
  private var known: Set<String> = []
  private var knownObstacles: Set<String> = []
  private static let mostNames = 3

  /// - Parameter rows: all that Slurm says of the jobs of this run, with their names.
  /// - Returns: what to tell of those that were not held before; nil if there is none.
  mutating func notice(_ rows: [(job: String, row: SlurmRow)]) -> String? {
    let held = rows.filter(\.row.isHeld)
    let fresh = held.filter { !known.contains($0.row.identifier) }
    known = Set(held.map(\.row.identifier))
    guard !fresh.isEmpty else { return nil }
    let (names, identifiers) = Self.shown(fresh)
    return "somebody holds \(Shown.count(fresh.count, "job")) in Slurm (\(names)); to let go: scontrol release \(identifiers)"
  }

  /// The same of those that can't begin.
  mutating func obstacleNotice(_ rows: [(job: String, row: SlurmRow)]) -> String? {
    let blocked = rows.filter { $0.row.obstacle != nil }
    let fresh = blocked.filter { !knownObstacles.contains($0.row.identifier) }
    knownObstacles = Set(blocked.map(\.row.identifier))
    guard !fresh.isEmpty else { return nil }
    let (names, identifiers) = Self.shown(fresh)
    let reasons = Set(fresh.compactMap(\.row.obstacle)).sorted().joined(separator: ", ")
    let they = fresh.count == 1 ? "it is" : "they are"
    return
      "Slurm can't begin \(Shown.count(fresh.count, "job")) as \(they) (\(names)): \(reasons); to change that: scontrol update, to end it: "
      + "scancel \(identifiers)"
  }

  private static func shown(_ rows: [(job: String, row: SlurmRow)]) -> (names: String, identifiers: String) {
    let shown = rows.prefix(mostNames)
    let more = rows.count > shown.count
    return (
      shown.map { Array($0.job.utf8).escapedName }.joined(separator: ", ") + (more ? ", ..." : ""),
      shown.map(\.row.identifier).joined(separator: " ") + (more ? " ..." : "")
    )
  }
}
