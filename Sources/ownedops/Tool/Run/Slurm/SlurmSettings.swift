import Foundation

/// What a run was begun with, for who goes on with it: `run.json`, beside the graph itself.
struct SlurmSettings: Equatable, Sendable {
  /// The identifier of its first runner.
  var run: String
  /// In seconds since 1970.
  var begin: Double
  var host: String
  var workingDirectory: String
  var targets: [String] = []
  var keepsGoing = false
  var grace = Duration.seconds(5)
  var logDirectory: String?
  var partition: String?
  var account: String?
  var window = 2000
  /// As `SLURM_CLUSTERS` has it; nil: the one that is here.
  var cluster: String?
  /// When the processes that owners end with began, in the system's own units, by their numbers.
  var births: [String: String] = [:]

  init(_ options: RunOptions, _ slurm: SlurmOptions, run: String, owners: [RunFile.Owner] = []) {
    self.run = run
    begin = WallClock.now
    host = MachineProcess.current.host
    workingDirectory = AbsolutePath.current
    targets = options.targets
    keepsGoing = options.keepsGoing
    grace = options.grace
    logDirectory = options.logDirectory.map(AbsolutePath.of)
    partition = slurm.partition
    account = slurm.account
    window = slurm.window
    cluster = SlurmPrograms.cluster
    for owner in owners {
      guard case .process(let process)? = owner.end, let birth = ProcessFields(of: process)?.birth else { continue }
      births[String(process)] = birth
    }
  }

  init(_ path: String) throws(UsageError) {
    guard let bytes = RawFile.contents(of: path) else { throw UsageError("can't read \(path): \(RawFile.message(errno))") }
    guard let value = try? JSONParser.parse(bytes), let run = value["run"]?.asText, let begin = value["begin"]?.asTime,
      let directory = value["in"]?.asText
    else {
      throw UsageError("\(path) says nothing that can be read")
    }
    self.run = run
    self.begin = begin
    host = value["host"]?.asText ?? ""
    workingDirectory = directory
    targets = value["targets"]?.asTexts ?? []
    keepsGoing = value["keepsGoing"]?.asBool ?? false
    grace = .milliseconds(value["grace"]?.asInteger ?? 5000)
    logDirectory = value["logs"]?.asText
    partition = value["partition"]?.asText
    account = value["account"]?.asText
    window = max(1, value["window"]?.asInteger ?? 2000)
    cluster = value["cluster"]?.asText
    births = value["births"]?.asTextMap ?? [:]
  }

  var bytes: [UInt8] {
    var line = JournalLine("settings")
    line.add("run", run)
    line.add("begin", time: begin)
    line.add("host", host)
    line.add("in", workingDirectory)
    line.add("targets", list: targets)
    line.add("keepsGoing", keepsGoing)
    line.add("grace", Int(min(grace.inSeconds, 1e9) * 1000))
    if let logDirectory { line.add("logs", logDirectory) }
    if let partition { line.add("partition", partition) }
    if let account { line.add("account", account) }
    line.add("window", window)
    if let cluster { line.add("cluster", cluster) }
    if !births.isEmpty { line.add("births", map: births) }
    return line.bytes
  }
}
