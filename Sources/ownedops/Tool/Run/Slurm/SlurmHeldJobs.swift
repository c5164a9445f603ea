/// Which jobs somebody holds in Slurm: they wait until somebody lets them go, and nothing else says so.
struct SlurmHeldJobs {
  private var known: Set<String> = []
  private static let mostNames = 3

  /// - Parameter rows: all that Slurm says of the jobs of this run, with their names.
  /// - Returns: what to tell of those that were not held before; nil if there is none.
  mutating func notice(_ rows: [(job: String, row: SlurmRow)]) -> String? {
    let held = rows.filter(\.row.isHeld)
    let fresh = held.filter { !known.contains($0.row.identifier) }
    known = Set(held.map(\.row.identifier))
    guard !fresh.isEmpty else { return nil }
    let shown = fresh.prefix(Self.mostNames)
    let more = fresh.count > shown.count
    let names = shown.map { Array($0.job.utf8).escapedName }.joined(separator: ", ") + (more ? ", ..." : "")
    let identifiers = shown.map(\.row.identifier).joined(separator: " ") + (more ? " ..." : "")
    return "somebody holds \(Shown.count(fresh.count, "job")) in Slurm (\(names)); to let go: scontrol release \(identifiers)"
  }
}
