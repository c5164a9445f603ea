import Foundation

/// What a journal says: the graph, and what has become of each job.
struct Journal: Sendable {
  struct Owner: Sendable {
    let name: String
    let parent: String?
  }

  struct Job: Sendable {
    var definition: JournalDefinition
    var state = State.waiting
    var attempt = 0
    var process: pid_t?
    var exit: JournalExit?
    var reason = ""
    var output = ""
    var submittedAt: Double?
    /// The first attempt of the last run of it.
    var startedAt: Double?
    var endedAt: Double?
    /// The place of the run that its last event is of, in the order of lines; -1: none.
    var run = -1

    /// Also by its exit alone, if no runner came to say so.
    var hasSucceeded: Bool { state == .succeeded || state == .exited && exit?.isSuccess == true }

    /// Has been handed over, and no end of it is known.
    var isUnderWay: Bool { state == .submitted || state == .running }
  }

  enum State: String, Sendable {
    case waiting, submitted, running, exited, succeeded, failed, cancelled
  }

  struct Run: Sendable {
    let run: JournalRun
    let start: Double
    /// Its keeper, or a successor in the place of one that was killed, has said the last word.
    var isKept = false
    var isEnded = false
    var lastTime: Double
  }

  let graph: String
  let time: Double
  var owners: [Owner] = []
  var jobs: [Job] = []
  var places: [String: Int] = [:]
  var runs: [Run] = []
  /// The bytes up to the end of the last whole line.
  var length = 0
  /// Lines that were dropped: those without an end, or with something else in them. Counted from 1.
  var tornLines: [Int] = []

  fileprivate init(graph: String, time: Double) {
    self.graph = graph
    self.time = time
  }

  func place(of job: String) -> Int? { places[job] }
}

/// A job as the journal knows it, without what does not change what it does.
struct JournalDefinition: Equatable, Sendable {
  let name: String
  let owner: String?
  /// Sorted.
  let after: [String]
  /// Waits for what it comes after to end, however.
  let runsAlways: Bool
  let command: [String]
  let directory: String?
  let environment: [String: String]

  init(_ job: RunFile.Job, in file: RunFile) {
    name = job.name
    owner = job.owner.map { file.owners[$0].name }
    after = job.after.map { file.jobs[$0].name }.sorted()
    runsAlways = job.runsAlways
    command = job.command.words
    directory = job.command.directory
    environment = job.command.environment
  }

  fileprivate init?(_ line: JSONValue) {
    guard let name = line["job"]?.asText, let command = line["command"]?.asTexts else { return nil }
    self.name = name
    self.command = command
    owner = line["owner"]?.asText
    after = line["after"]?.asTexts ?? []
    runsAlways = line["when"]?.asText == "always"
    directory = line["directory"]?.asText
    environment = line["environment"]?.asTextMap ?? [:]
  }

  var line: [UInt8] {
    var line = JournalLine("job")
    line.add("job", name)
    if let owner { line.add("owner", owner) }
    if !after.isEmpty { line.add("after", list: after) }
    if runsAlways { line.add("when", "always") }
    line.add("command", list: command)
    if let directory { line.add("directory", directory) }
    if !environment.isEmpty { line.add("environment", map: environment) }
    return line.bytes
  }

  /// What differs, for people; nil if it does the same. When it runs is no part of that.
  func change(from old: JournalDefinition) -> String? {
    if !Self.isSame(command, old.command) { return "command" }
    if !Self.isSame([directory].compactMap { $0 }, [old.directory].compactMap { $0 }) { return "directory" }
    if !Self.isSame(environment, old.environment) { return "environment" }
    if after != old.after { return "dependencies" }
    return nil
  }

  static func == (left: JournalDefinition, right: JournalDefinition) -> Bool {
    left.name == right.name && left.owner == right.owner && left.runsAlways == right.runsAlways && left.change(from: right) == nil
  }

  /// To a command, texts that look the same are not, though Swift takes them for equal. An example is an accent of its own and a letter
  /// with one.
  private static func isSame(_ left: [String], _ right: [String]) -> Bool {
    left == right && zip(left, right).allSatisfy { $0.utf8.elementsEqual($1.utf8) }
  }

  private static func isSame(_ left: [String: String], _ right: [String: String]) -> Bool {
    guard left == right else { return false }
    let (left, right) = (left.sorted { $0.key < $1.key }, right.sorted { $0.key < $1.key })
    return isSame(left.flatMap { [$0.key, $0.value] }, right.flatMap { [$0.key, $0.value] })
  }
}

/// The lines that a journal begins with.
struct JournalHead {
  let bytes: [UInt8]

  init(_ file: RunFile) {
    var line = JournalLine("journal")
    line.add("version", JournalEvent.version)
    line.add("graph", Self.hash(of: file))
    line.add("owners", file.owners.count)
    line.add("jobs", file.jobs.count)
    line.add("time", time: WallClock.now)
    var bytes = line.bytes
    for owner in file.owners {
      var line = JournalLine("owner")
      line.add("owner", owner.name)
      if let parent = owner.parent { line.add("parent", file.owners[parent].name) }
      bytes += line.bytes
    }
    for job in file.jobs { bytes += JournalDefinition(job, in: file).line }
    self.bytes = bytes
  }

  /// Of the names of the jobs, in whatever order: a graph stays the same when what its jobs do changes.
  static func hash(of file: RunFile) -> String {
    var hash = StreamHash()
    for name in file.jobs.map(\.name).sorted(by: { $0.utf8.lexicographicallyPrecedes($1.utf8) }) {
      Array(name.utf8).withUnsafeBytes { hash.add($0) }
    }
    let digits = String(hash.value, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }
}

/// Reads a journal. Linear in its length.
struct JournalReader {
  private let path: String
  private var journal = Journal(graph: "", time: 0)
  private var lineNumber = 0
  private var jobsWanted = 0

  static func read(_ path: String) throws(UsageError) -> Journal {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { throw UsageError("can't read the journal \(path): \(RawFile.message(errno))") }
    defer { close(descriptor) }
    return try read(descriptor, path: path)
  }

  /// From the beginning, wherever the descriptor stands.
  static func read(_ descriptor: Int32, path: String) throws(UsageError) -> Journal {
    var status = stat()
    guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
      throw UsageError("\(path) is no journal: it is \(status.st_mode & S_IFMT == S_IFDIR ? "a directory" : "no regular file")")
    }
    var bytes = [UInt8](repeating: 0, count: Int(status.st_size))
    var filled = 0
    while filled < bytes.count {
      let count = bytes.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress.map { $0 + filled }, $0.count - filled, off_t(filled)) }
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw UsageError("can't read the journal \(path): \(RawFile.message(errno))") }
      guard count > 0 else { break }
      filled += count
    }
    bytes.removeLast(bytes.count - filled)
    var reader = JournalReader(path: path)
    try reader.read(bytes)
    return reader.journal
  }

  /// Whether it begins as a journal does, for who does not want to read it all.
  static func checkHead(of descriptor: Int32, path: String) throws(UsageError) {
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = bytes.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, $0.count, 0) }
    let line = bytes.prefix(max(0, count)).prefix { $0 != UInt8(ascii: "\n") }
    var reader = JournalReader(path: path)
    try reader.readHead(line.count < count ? try? JSONParser.parse(Array(line)) : nil)
  }

  private init(path: String) { self.path = path }

  private mutating func read(_ bytes: [UInt8]) throws(UsageError) {
    var start = 0
    while start < bytes.count {
      lineNumber += 1
      guard let end = bytes[start...].firstIndex(of: UInt8(ascii: "\n")) else {
        if lineNumber == 1 { throw UsageError("\(path) is no journal: its first line is none of a journal") }
        journal.tornLines.append(lineNumber)
        break
      }
      guard end > start || lineNumber == 1 else {
        // Whoever adds a line begins a new one, too, where half of another's is there because it is being written just now.
        start = end + 1
        journal.length = start
        continue
      }
      let value = try? JSONParser.parse(Array(bytes[start..<end]))
      if lineNumber == 1 {
        try readHead(value)
      } else if let value {
        try readLine(value)
      } else {
        journal.tornLines.append(lineNumber)
      }
      start = end + 1
      journal.length = start
    }
    guard lineNumber > 0 else { throw UsageError("\(path) is no journal: it is empty") }
    guard journal.jobs.count == jobsWanted else {
      throw UsageError("\(path) is no whole journal: it lists \(journal.jobs.count) of \(jobsWanted) jobs; remove it to begin anew")
    }
  }

  private mutating func readHead(_ line: JSONValue?) throws(UsageError) {
    guard let line, line["event"]?.asText == "journal", let version = line["version"]?.asInteger, let graph = line["graph"]?.asText else {
      throw UsageError("\(path) is no journal: its first line is none of a journal")
    }
    guard version == JournalEvent.version else {
      throw UsageError("\(path) is a journal of version \(version); this program knows version \(JournalEvent.version)")
    }
    jobsWanted = line["jobs"]?.asInteger ?? 0
    journal = Journal(graph: graph, time: line["time"]?.asTime ?? 0)
  }

  private mutating func readLine(_ line: JSONValue) throws(UsageError) {
    switch line["event"]?.asText {
    case "owner":
      guard let name = line["owner"]?.asText else { return }
      journal.owners.append(Journal.Owner(name: name, parent: line["parent"]?.asText))
    case "job":
      guard let definition = JournalDefinition(line) else { return }
      if let place = journal.places[definition.name] {
        journal.jobs[place] = Journal.Job(definition: definition)
      } else {
        journal.places[definition.name] = journal.jobs.count
        journal.jobs.append(Journal.Job(definition: definition))
      }
    default:
      guard let event = JournalEvent(line) else { return }
      take(event, at: line["time"]?.asTime ?? 0)
    }
  }

  private mutating func take(_ event: JournalEvent, at time: Double) {
    if !journal.runs.isEmpty { journal.runs[journal.runs.count - 1].lastTime = max(journal.runs[journal.runs.count - 1].lastTime, time) }
    switch event {
    case .run(let run): journal.runs.append(Journal.Run(run: run, start: time, lastTime: time))
    case .kept(let run): change(run) { $0.isKept = true }
    case .ended(let run): change(run) { $0.isEnded = true }
    case .submitted(let name, let attempt):
      change(name) { job in
        if attempt == 1 {
          job = Journal.Job(definition: job.definition)
          job.submittedAt = time
        }
        job.state = .submitted
        job.attempt = attempt
        job.process = nil
        job.exit = nil
      }
    case .started(let name, let attempt, let process):
      change(name) { job in
        job.state = .running
        job.attempt = attempt
        // Of a job on a cluster it is not known.
        job.process = process > 0 ? process : nil
        // From a cluster it may be heard twice: when it was seen to run, and when it says itself since when it had.
        job.startedAt = min(job.startedAt ?? time, time)
      }
    case .exited(let name, let attempt, let exit):
      change(name) { job in
        job.state = .exited
        job.attempt = attempt
        job.exit = exit
        job.endedAt = time
        if let reason = exit.reason { job.reason = reason }
        if let output = exit.output { job.output = output }
      }
    case .succeeded(let name, let attempts): finish(name, .succeeded, attempts, time)
    case .failed(let name, let attempts, let reason, let output): finish(name, .failed, attempts, time, reason, output)
    case .cancelled(let name, let reason): finish(name, .cancelled, nil, time, reason)
    case .again(let name, let reason):
      change(name) { job in
        job = Journal.Job(definition: job.definition)
        job.reason = reason
      }
    }
  }

  private mutating func finish(
    _ name: String, _ state: Journal.State, _ attempts: Int?, _ time: Double, _ reason: String = "", _ output: String = ""
  ) {
    change(name) { job in
      job.state = state
      if let attempts { job.attempt = attempts }
      job.reason = reason
      if !output.isEmpty { job.output = output }
      // The end of its last attempt is nearer to the truth than when the runner came to say so.
      if job.endedAt == nil || job.exit == nil { job.endedAt = time }
    }
  }

  private mutating func change(_ name: String, _ body: (inout Journal.Job) -> Void) {
    guard let place = journal.places[name] else { return }
    body(&journal.jobs[place])
    journal.jobs[place].run = journal.runs.count - 1
  }

  private mutating func change(_ run: String, _ body: (inout Journal.Run) -> Void) {
    guard let place = journal.runs.lastIndex(where: { $0.run.identifier == run }) else { return }
    body(&journal.runs[place])
  }
}
