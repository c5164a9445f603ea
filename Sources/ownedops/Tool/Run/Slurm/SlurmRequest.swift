import Foundation
import OwnedOperations

/// What `sbatch` is told of a job; jobs with equal requests can be one array.
struct SlurmRequest: Hashable, Sendable {
  let owner: Int?
  let runsAlways: Bool
  let processors: Int
  let memory: Int
  let nice: Int
  /// In minutes.
  let timeLimit: Int?
  let cluster: RunFile.ClusterRequest?
  /// Slurm's names of jobs.
  let dependencies: [String]

  /// - Parameters:
  ///   - urgent: the highest priority in the graph.
  ///   - dependencies: those that have not succeeded yet.
  init(_ job: RunFile.Job, urgent: Operation.QueuePriority, grace: Duration, dependencies: [String]) {
    owner = job.owner
    runsAlways = job.runsAlways
    processors = job.processors
    memory = job.memory
    // Less than 0 needs privileges, so it counts from the most urgent one downwards.
    nice = (urgent.rawValue - job.priority.rawValue) / 4 * Self.step
    timeLimit = job.timeout.map { Self.minutes($0 + grace + Self.margin) }
    cluster = job.cluster
    self.dependencies = dependencies
  }

  private static let step = 1000
  /// The wrapper's limit is the job's. Slurm's stands behind it, for a wrapper that does nothing any more. Before the command it may wait.
  private static let margin = SlurmWrapper.patience + .seconds(30)

  private static func minutes(_ time: Duration) -> Int { max(1, Int((time.inSeconds / 60).rounded(.up))) }

  /// The arguments that say this, and nothing of whose it is.
  func words(_ options: SlurmOptions) -> [String] {
    var words = ["--nice=\(nice)", "--cpus-per-task=\(processors)"]
    if memory > 0 { words.append("--mem=\((memory - 1) >> 20 + 1)M") }
    if let timeLimit { words.append("--time=\(timeLimit)") }
    if let gpus = cluster?.gpus { words.append("--gpus=\(gpus)") }
    if let partition = cluster?.partition ?? options.partition { words.append("--partition=\(partition)") }
    if let account = cluster?.account ?? options.account { words.append("--account=\(account)") }
    if let constraint = cluster?.constraint { words.append("--constraint=\(constraint)") }
    if !dependencies.isEmpty {
      words.append("--dependency=\(runsAlways ? "afterany" : "afterok"):\(dependencies.joined(separator: ":"))")
    }
    return words + (cluster?.options ?? [])
  }
}
