import Foundation
import OwnedOperations

/// Turns JSON into owners and jobs, and says what is wrong with it and where.
///
/// Jobs are read one by one: of the document no more is kept than what they are made of.
final class RunFileReader {
  private(set) var owners: [RunFile.Owner] = []
  private(set) var jobs: [RunFile.Job] = []
  /// Where they stand in the document.
  private(set) var ownerOffsets: [Int] = []
  private(set) var jobOffsets: [Int] = []
  /// Every job comes after jobs that stand before it: there can't be a circle.
  private(set) var isInOrder = true
  private var ownerPlaces: [String: Int] = [:]
  private var jobPlaces: [String: Int] = [:]
  private var hasReadOwners = false
  /// Names that stood for nothing when they were read: owners that stand after the jobs, and jobs after those that depend on them.
  private var openOwners: [OpenName] = []
  private var openDependencies: [OpenName] = []

  private struct OpenName {
    let job: Int
    /// In the job's dependencies.
    var index = 0
    let name: String
    let offset: Int
  }

  private static let priorities: [String: Operation.QueuePriority] = [
    "veryLow": .veryLow, "low": .low, "normal": .normal, "high": .high, "veryHigh": .veryHigh,
  ]

  private static let keys = ["owners", "jobs"]

  func read(_ document: [UInt8]) throws(JSONFault) {
    let stream = JSONParser.Stream(
      key: "jobs",
      begin: { [self] before throws(JSONFault) in
        let fields = try JSONFields(JSONValue(content: .object(before), place: 0), "the document", keys: Self.keys)
        guard let owners = try fields.list("owners") else { return }
        try readOwners(owners)
      }, element: { [self] element throws(JSONFault) in try readJob(element) })
    let value = try JSONParser.parse(document, stream: stream)
    let top = try JSONFields(value, "the document", keys: Self.keys)
    if !hasReadOwners { try readOwners(top.list("owners") ?? []) }
    guard try top.list("jobs") != nil else { throw JSONFault("there is no \"jobs\"; list at least one", at: value.place) }
    guard !jobs.isEmpty else { throw JSONFault("\"jobs\" is empty; list at least one", at: top.place(of: "jobs")) }
    for open in openOwners { jobs[open.job].owner = try ownerPlace(open.name, label: jobLabel(open.job), open.offset) }
    try resolveDependencies()
  }

  private func readOwners(_ list: [JSONValue]) throws(JSONFault) {
    hasReadOwners = true
    var parents: [(name: String, offset: Int)?] = []
    for (place, element) in list.enumerated() {
      let fields = try JSONFields(element, "owner", number: place + 1, keys: ["name", "parent", "maxConcurrent", "endsWhen"])
      let name = try fields.name()
      guard ownerPlaces.updateValue(place, forKey: name) == nil else {
        throw JSONFault("two owners are called \"\(name)\"", at: fields.place(of: "name"))
      }
      let most = try fields.integer("maxConcurrent")
      if let most, most < 1 { throw fields.error("\"maxConcurrent\" is \(most); it must be 1 or more", at: "maxConcurrent") }
      owners.append(RunFile.Owner(name: name, mostConcurrent: most, end: try endCondition(fields)))
      ownerOffsets.append(element.place)
      parents.append(try fields.text("parent").map { ($0, fields.place(of: "parent")) })
    }
    for (place, parent) in parents.enumerated() {
      guard let parent else { continue }
      guard let parentPlace = ownerPlaces[parent.name] else {
        throw JSONFault(
          "owner \"\(owners[place].name)\": there is no owner \"\(parent.name)\"\(suggestion(parent.name, ownerPlaces))", at: parent.offset)
      }
      owners[place].parent = parentPlace
    }
  }

  private func endCondition(_ owner: JSONFields) throws(JSONFault) -> RunFile.EndCondition? {
    guard let value = owner["endsWhen"] else { return nil }
    let fields = try JSONFields(value, "\(owner.label): \"endsWhen\"", keys: ["process", "fileRemoved", "after"])
    guard fields.count == 1 else {
      throw owner.error("\"endsWhen\" wants one of \"process\", \"fileRemoved\" and \"after\"", at: "endsWhen")
    }
    if let process = try fields.integer("process") {
      guard process > 0, process <= Int(pid_t.max) else {
        throw JSONFault("\(owner.label): \"process\" is \(process); it must be the number of a process", at: fields.place(of: "process"))
      }
      return .process(pid_t(process))
    }
    if let path = try fields.path("fileRemoved") { return .fileRemoved(path) }
    return try fields.duration("after").map { .after($0) }
  }

  private static let jobKeys =
    [
      "name", "owner", "after", "command", "priority", "directory", "environment", "timeout", "retries", "cpus", "memory", "when",
    ] + ClusterRequestReader.keys

  private func readJob(_ element: JSONValue) throws(JSONFault) {
    let place = jobs.count
    let fields = try JSONFields(element, "job", number: place + 1, keys: Self.jobKeys)
    let name = try fields.name()
    guard jobPlaces.updateValue(place, forKey: name) == nil else {
      throw JSONFault("two jobs are called \"\(name)\"", at: fields.place(of: "name"))
    }
    var job = try job(name, fields)
    if let dependencies = try fields.placedTexts("after"), !dependencies.isEmpty {
      job.after.reserveCapacity(dependencies.count)
      for (text, offset) in dependencies {
        if let target = jobPlaces[text], target != place {
          job.after.append(target)
        } else {
          openDependencies.append(OpenName(job: place, index: job.after.count, name: text, offset: offset))
          job.after.append(place)
        }
      }
    }
    if let owner = try fields.text("owner") {
      if hasReadOwners {
        job.owner = try ownerPlace(owner, label: fields.label, fields.place(of: "owner"))
      } else {
        openOwners.append(OpenName(job: place, name: owner, offset: fields.place(of: "owner")))
      }
    }
    jobs.append(job)
    jobOffsets.append(element.place)
  }

  private func jobLabel(_ place: Int) -> String { "job \"\(jobs[place].name)\"" }

  private func ownerPlace(_ name: String, label: String, _ offset: Int) throws(JSONFault) -> Int {
    if let place = ownerPlaces[name] { return place }
    throw JSONFault("\(label): there is no owner \"\(name)\"\(suggestion(name, ownerPlaces))", at: offset)
  }

  private func resolveDependencies() throws(JSONFault) {
    isInOrder = openDependencies.isEmpty
    for open in openDependencies {
      guard let target = jobPlaces[open.name] else {
        // It can't come after itself.
        let advice = suggestion(open.name, jobPlaces.filter { $0.value != open.job })
        throw JSONFault("\(jobLabel(open.job)): there is no job \"\(open.name)\" to come after\(advice)", at: open.offset)
      }
      jobs[open.job].after[open.index] = target
    }
    jobPlaces = [:]
    // The last job that has been made to follow each, so that none does twice.
    var followers = Array(repeating: -1, count: jobs.count)
    for place in jobs.indices {
      var hasTwice = false
      for target in jobs[place].after {
        hasTwice = hasTwice || followers[target] == place
        followers[target] = place
      }
      guard hasTwice else { continue }
      var seen: Set<Int> = []
      jobs[place].after.removeAll { !seen.insert($0).inserted }
    }
  }

  private func job(_ name: String, _ fields: JSONFields) throws(JSONFault) -> RunFile.Job {
    guard let words = try fields.texts("command") else {
      throw fields.error("there is no \"command\"; write [\"program\", \"argument\", ...]")
    }
    guard let program = words.first, !program.isEmpty else {
      throw fields.error("\"command\" is empty; write [\"program\", \"argument\", ...]", at: "command")
    }
    guard !words.contains(where: { $0.utf8.contains(0) }) else { throw fields.error("\"command\" holds a NUL character", at: "command") }
    var job = RunFile.Job(name: name, command: ChildProcess.Command(words: words))
    if let priority = try fields.text("priority") {
      guard let known = Self.priorities[priority] else {
        let names = ["veryLow", "low", "normal", "high", "veryHigh"]
        throw fields.error("\"priority\" is \"\(priority)\"; it must be one of \(names.joined(separator: ", "))", at: "priority")
      }
      job.priority = known
    }
    if let when = try fields.text("when") {
      guard ["success", "always"].contains(when) else {
        throw fields.error("\"when\" is \"\(when)\"; it must be success or always", at: "when")
      }
      job.runsAlways = when == "always"
    }
    job.command.directory = try fields.path("directory")
    job.command.environment = try fields.textMap("environment") ?? [:]
    job.timeout = try fields.duration("timeout")
    if let timeout = job.timeout, timeout <= .zero { throw fields.error("\"timeout\" must be longer than nothing", at: "timeout") }
    job.retries = try fields.integer("retries") ?? 0
    job.processors = try fields.integer("cpus") ?? 1
    guard job.processors >= 1 else { throw fields.error("\"cpus\" is \(job.processors); it must be 1 or more", at: "cpus") }
    job.memory = try fields.size("memory") ?? 0
    guard job.retries >= 0 else { throw fields.error("\"retries\" is \(job.retries); it must be 0 or more", at: "retries") }
    job.cluster = try ClusterRequestReader.read(fields)
    return job
  }

  private func suggestion(_ name: String, _ places: [String: Int]) -> String {
    Suggestion.text(for: name, among: places.keys.sorted())
  }
}
