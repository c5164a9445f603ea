import Foundation
import OwnedOperations

/// A graph of commands, read from JSON and found to be sound.
struct RunFile: Sendable {
  struct Owner: Sendable {
    let name: String
    var parent: Int?
    var mostConcurrent: Int?
    var end: EndCondition?
  }

  enum EndCondition: Sendable, Equatable {
    case process(pid_t)
    case fileRemoved(String)
    case after(Duration)
  }

  struct Job: Sendable {
    let name: String
    /// Nil: it belongs to the run itself.
    var owner: Int?
    var after: [Int] = []
    /// Also when what it comes after has not succeeded, or another job has failed.
    var runsAlways = false
    var command: ChildProcess.Command
    var priority = Operation.QueuePriority.normal
    var timeout: Duration?
    var retries = 0
    /// Of what `--jobs` allows.
    var processors = 1
    /// In bytes, of what `--memory` allows.
    var memory = 0
    /// What only a cluster heeds. An object, because most jobs say nothing of it.
    var cluster: ClusterRequest?
  }

  /// What a job wants of Slurm beyond what this machine knows, too.
  final class ClusterRequest: Sendable, Hashable {
    let gpus: Int?
    let partition: String?
    let account: String?
    let constraint: String?
    /// For `sbatch`, as they stand in the file.
    let options: [String]

    init(gpus: Int?, partition: String?, account: String?, constraint: String?, options: [String]) {
      self.gpus = gpus
      self.partition = partition
      self.account = account
      self.constraint = constraint
      self.options = options
    }

    private var values: [[String?]] { [[gpus.map { String($0) }, partition, account, constraint], options] }
    static func == (left: ClusterRequest, right: ClusterRequest) -> Bool { left === right || left.values == right.values }
    func hash(into hasher: inout Hasher) { hasher.combine(values) }
  }

  let owners: [Owner]
  let jobs: [Job]

  /// Reads a file, or standard input for `-`.
  init(path: String) throws(UsageError) { try self.init(Self.document(at: path), source: path == "-" ? "standard input" : path) }

  /// The text of a file, or of standard input for `-`.
  static func document(at path: String) throws(UsageError) -> [UInt8] {
    let descriptor = path == "-" ? dup(0) : open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw UsageError("can't read \(path): \(RawFile.message(errno))") }
    defer { close(descriptor) }
    guard let document = RawFile.contents(of: descriptor) else {
      throw UsageError("can't read \(path): it is a directory, or reading failed")
    }
    return document
  }

  init(_ data: Data, source: String) throws(UsageError) { try self.init(Array(data), source: source) }

  init(owners: [Owner], jobs: [Job]) {
    self.owners = owners
    self.jobs = jobs
  }

  /// - Parameter source: begins every complaint; each ends with the line and the column.
  init(_ document: [UInt8], source: String) throws(UsageError) {
    do throws(JSONFault) {
      let reader = RunFileReader()
      try reader.read(document)
      let (owners, jobs) = (reader.owners, reader.jobs)
      try Self.checkForCycles(
        owners.count, { owners[$0].parent.map { [$0] } ?? [] }, name: { owners[$0].name }, places: reader.ownerOffsets,
        "owners are each other's parents")
      if !reader.isInOrder {
        try Self.checkForCycles(
          jobs.count, { jobs[$0].after }, name: { jobs[$0].name }, places: reader.jobOffsets, "jobs wait for each other")
      }
      self.owners = owners
      self.jobs = jobs
    } catch {
      throw UsageError("\(source): \(error.usageError(in: document))")
    }
  }

  /// Names a circle, if there is one. Linear; goes deep without recursion.
  private static func checkForCycles(
    _ count: Int, _ edges: (Int) -> [Int], name: (Int) -> String, places: [Int], _ what: String
  ) throws(JSONFault) {
    enum Mark { case unseen, open, done }
    var marks = Array(repeating: Mark.unseen, count: count)
    for root in 0..<count where marks[root] == .unseen {
      var path: [(node: Int, next: Int)] = [(root, 0)]
      marks[root] = .open
      while let (node, next) = path.last {
        let targets = edges(node)
        guard next < targets.count else {
          marks[node] = .done
          path.removeLast()
          continue
        }
        path[path.count - 1].next += 1
        let target = targets[next]
        switch marks[target] {
        case .done: continue
        case .unseen:
          marks[target] = .open
          path.append((target, 0))
        case .open:
          let start = path.firstIndex { $0.node == target } ?? 0
          let circle = path[start...].map { name($0.node) } + [name(target)]
          let shown = circle.count > 12 ? circle.prefix(6) + ["..."] + circle.suffix(5) : circle[...]
          throw JSONFault("\(what) in a circle: \(shown.joined(separator: " -> "))", at: places[target])
        }
      }
    }
  }
}
