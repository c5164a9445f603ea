/// One job as `squeue` shows it.
struct SlurmRow: Equatable, Sendable {
  enum Standing: Equatable, Sendable {
    case waiting, running
    /// Its processes have been asked to go, or are just gone.
    case ending
    case over(SlurmEnd)
  }

  let identifier: String
  let comment: String
  let nodes: String
  let standing: Standing

  /// What it comes after has not ended as it should have.
  let isUnsatisfied: Bool

  /// It waits until somebody lets it go.
  let isHeld: Bool

  /// Why it waits, in Slurm's word, where that lies in what it asks for or in how the cluster is set up. It may wait for ever.
  let obstacle: String?

  /// As ``words`` ask for it.
  init?(_ line: Substring) {
    let fields = line.split(separator: "|", maxSplits: 4, omittingEmptySubsequences: false)
    guard fields.count == 5, fields[0].first?.isNumber == true else { return nil }
    identifier = String(fields[0])
    comment = String(fields[2])
    nodes = String(fields[3])
    standing = Self.standing(fields[1])
    isUnsatisfied = fields[4] == "DependencyNeverSatisfied"
    let states: Set<Substring> = ["REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"]
    isHeld = states.contains(fields[1]) || fields[1] == "PENDING" && ["JobHeldUser", "JobHeldAdmin"].contains(fields[4])
    obstacle = fields[1] == "PENDING" && Self.isObstacle(fields[4]) ? String(fields[4]) : nil
  }

  private static let obstacles: Set<Substring> = ["BadConstraints", "InvalidAccount", "InvalidQOS", "QOSNotAllowed", "AccountNotAllowed"]

  private static func isObstacle(_ reason: Substring) -> Bool {
    obstacles.contains(reason) || ["Partition", "QOSMin"].contains { reason.hasPrefix($0) }
      || ["PerJob", "PerNode"].contains { reason.contains($0) }
  }

  private static func standing(_ state: Substring) -> Standing {
    switch state {
    case "PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT", "CONFIGURING": .waiting
    case "COMPLETING", "STAGE_OUT", "SIGNALING": .ending
    case "COMPLETED": .over(.completed)
    case "FAILED": .over(.failed)
    case "CANCELLED": .over(.cancelled)
    case "TIMEOUT": .over(.timeLimit)
    case "DEADLINE": .over(.deadline)
    case "OUT_OF_MEMORY": .over(.outOfMemory)
    case "PREEMPTED": .over(.preempted)
    case "NODE_FAIL", "BOOT_FAIL": .over(.nodeLost)
    case "REVOKED": .over(.revoked)
    // RUNNING, SUSPENDED, STOPPED, RESIZING, and what a later version may add.
    default: .running
    }
  }

  var isOver: Bool { if case .over = standing { true } else { false } }

  static let words = ["squeue", "--me", "--noheader", "--array", "--states=all", "--format=%i|%T|%k|%N|%r"]

  /// Of an answer, by identifier.
  static func table(_ text: String) -> [String: SlurmRow] {
    var table: [String: SlurmRow] = [:]
    for line in text.split(separator: "\n") { if let row = SlurmRow(line) { table[row.identifier] = row } }
    return table
  }
}

/// How Slurm says that a job has ended.
enum SlurmEnd: Equatable, Sendable {
  case completed, failed, cancelled, timeLimit, deadline, outOfMemory, preempted, nodeLost, revoked

  /// Why a job ended that did not come to say so itself. Nil where this is no more than that it ended.
  func reason(nodes: String) -> String? {
    let place = nodes.isEmpty || nodes == "(null)" ? "" : " on \(nodes)"
    return switch self {
    case .completed, .failed: nil
    case .cancelled: "cancelled by somebody else"
    case .timeLimit: "ended by Slurm\(place): its time limit was reached"
    case .deadline: "ended by Slurm\(place): its deadline was reached"
    case .outOfMemory: "ended by Slurm\(place): out of memory"
    case .preempted: "ended by Slurm\(place): preempted"
    case .nodeLost: "its node was lost\(place)"
    case .revoked: "ended by Slurm: revoked"
    }
  }
}
