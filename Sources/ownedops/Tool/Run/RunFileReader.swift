import Foundation
import OwnedOperations

/// Turns parsed JSON into owners and jobs, and says what is wrong with it and where.
struct RunFileReader {
  private(set) var owners: [RunFile.Owner] = []
  private(set) var jobs: [RunFile.Job] = []
  private var ownerPlaces: [String: Int] = [:]
  private var jobPlaces: [String: Int] = [:]

  private static let priorities: [String: Operation.QueuePriority] = [
    "veryLow": .veryLow, "low": .low, "normal": .normal, "high": .high, "veryHigh": .veryHigh,
  ]

  mutating func read(_ document: Any) throws(UsageError) {
    let top = try Fields(document, "the document", keys: ["owners", "jobs"])
    try readOwners(top.list("owners") ?? [])
    guard let jobs = try top.list("jobs") else { throw UsageError("there is no \"jobs\"; list at least one") }
    guard !jobs.isEmpty else { throw UsageError("\"jobs\" is empty; list at least one") }
    try readJobs(jobs)
  }

  private mutating func readOwners(_ list: [Any]) throws(UsageError) {
    var parents: [String?] = []
    for (place, element) in list.enumerated() {
      let fields = try Fields(element, "owner", number: place + 1, keys: ["name", "parent", "maxConcurrent", "endsWhen"])
      guard let name = try fields.text("name"), !name.isEmpty else { throw UsageError("\(fields.label) has no \"name\"") }
      guard ownerPlaces.updateValue(place, forKey: name) == nil else { throw UsageError("two owners are called \"\(name)\"") }
      let most = try fields.integer("maxConcurrent")
      if let most, most < 1 { throw fields.error("\"maxConcurrent\" is \(most); it must be 1 or more") }
      owners.append(RunFile.Owner(name: name, mostConcurrent: most, end: try endCondition(fields)))
      parents.append(try fields.text("parent"))
    }
    for (place, parent) in parents.enumerated() {
      guard let parent else { continue }
      guard let parentPlace = ownerPlaces[parent] else {
        throw UsageError("owner \"\(owners[place].name)\": there is no owner \"\(parent)\"\(suggestion(parent, ownerPlaces))")
      }
      owners[place].parent = parentPlace
    }
  }

  private func endCondition(_ owner: Fields) throws(UsageError) -> RunFile.EndCondition? {
    guard let value = owner.fields["endsWhen"] else { return nil }
    let fields = try Fields(value, "\(owner.label): \"endsWhen\"", keys: ["process", "fileRemoved", "after"])
    guard fields.fields.count == 1 else {
      throw owner.error("\"endsWhen\" wants one of \"process\", \"fileRemoved\" and \"after\"")
    }
    if let process = try fields.integer("process") {
      guard process > 0, process <= Int(pid_t.max) else {
        throw owner.error("\"process\" is \(process); it must be the number of a process")
      }
      return .process(pid_t(process))
    }
    if let path = try fields.path("fileRemoved") { return .fileRemoved(path) }
    return try fields.duration("after").map { .after($0) }
  }

  private mutating func readJobs(_ list: [Any]) throws(UsageError) {
    let keys = ["name", "owner", "after", "command", "priority", "directory", "environment", "timeout", "retries"]
    var dependencies: [[String]] = []
    dependencies.reserveCapacity(list.count)
    jobs.reserveCapacity(list.count)
    jobPlaces.reserveCapacity(list.count)
    for (place, element) in list.enumerated() {
      let fields = try Fields(element, "job", number: place + 1, keys: keys)
      guard let name = try fields.text("name"), !name.isEmpty else { throw UsageError("\(fields.label) has no \"name\"") }
      guard jobPlaces.updateValue(place, forKey: name) == nil else { throw UsageError("two jobs are called \"\(name)\"") }
      dependencies.append(try fields.texts("after") ?? [])
      jobs.append(try job(name, fields))
    }
    // The last job that has been made to follow each, so that none does twice.
    var followers = Array(repeating: -1, count: jobs.count)
    for (place, names) in dependencies.enumerated() where !names.isEmpty {
      var after: [Int] = []
      after.reserveCapacity(names.count)
      for name in names {
        guard let target = jobPlaces[name] else {
          throw UsageError("job \"\(jobs[place].name)\": there is no job \"\(name)\" to come after\(suggestion(name, jobPlaces))")
        }
        guard followers[target] != place else { continue }
        followers[target] = place
        after.append(target)
      }
      jobs[place].after = after
    }
  }

  private func job(_ name: String, _ fields: Fields) throws(UsageError) -> RunFile.Job {
    guard let words = try fields.texts("command") else {
      throw fields.error("there is no \"command\"; write [\"program\", \"argument\", ...]")
    }
    guard let program = words.first, !program.isEmpty else {
      throw fields.error("\"command\" is empty; write [\"program\", \"argument\", ...]")
    }
    guard !words.contains(where: { $0.utf8.contains(0) }) else { throw fields.error("\"command\" holds a NUL character") }
    var job = RunFile.Job(name: name, command: ChildProcess.Command(words: words))
    if let owner = try fields.text("owner") {
      guard let place = ownerPlaces[owner] else { throw fields.error("there is no owner \"\(owner)\"\(suggestion(owner, ownerPlaces))") }
      job.owner = place
    }
    if let priority = try fields.text("priority") {
      guard let known = Self.priorities[priority] else {
        let names = ["veryLow", "low", "normal", "high", "veryHigh"]
        throw fields.error("\"priority\" is \"\(priority)\"; it must be one of \(names.joined(separator: ", "))")
      }
      job.priority = known
    }
    job.command.directory = try fields.path("directory")
    job.command.environment = try fields.textMap("environment") ?? [:]
    job.timeout = try fields.duration("timeout")
    if let timeout = job.timeout, timeout <= .zero { throw fields.error("\"timeout\" must be longer than nothing") }
    job.retries = try fields.integer("retries") ?? 0
    guard job.retries >= 0 else { throw fields.error("\"retries\" is \(job.retries); it must be 0 or more") }
    return job
  }

  private func suggestion(_ name: String, _ places: [String: Int]) -> String {
    Suggestion.text(for: name, among: places.keys.sorted())
  }
}

/// The fields of one JSON object, of which no key is unknown.
private struct Fields {
  let label: String
  let fields: [String: Any]

  init(_ value: Any, _ kind: String, number: Int? = nil, keys: [String]) throws(UsageError) {
    let place = number.map { "\(kind) \($0)" } ?? kind
    guard let fields = value as? [String: Any] else { throw UsageError("\(place) is not an object: { ... }") }
    let name = fields["name"] as? String
    label = number != nil ? name.map { "\(kind) \"\($0)\"" } ?? place : place
    self.fields = fields
    for key in fields.keys.sorted() where !keys.contains(key) {
      throw error("unknown key \"\(key)\"\(Suggestion.text(for: key, among: keys))")
    }
  }

  func error(_ text: String) -> UsageError { UsageError("\(label): \(text)") }

  func list(_ key: String) throws(UsageError) -> [Any]? {
    guard let value = fields[key] else { return nil }
    guard let list = value as? [Any] else { throw error("\"\(key)\" is not a list: [ ... ]") }
    return list
  }

  func text(_ key: String) throws(UsageError) -> String? {
    guard let value = fields[key] else { return nil }
    guard let text = value as? String else { throw error("\"\(key)\" is not a text: \"...\"") }
    return text
  }

  /// What the system would cut off at the first NUL, or take for the current directory, is no path.
  func path(_ key: String) throws(UsageError) -> String? {
    guard let path = try text(key) else { return nil }
    guard !path.isEmpty, !path.utf8.contains(0) else { throw error("\"\(key)\" is no path: it is empty or holds a NUL character") }
    return path
  }

  func texts(_ key: String) throws(UsageError) -> [String]? {
    guard let list = try list(key) else { return nil }
    var texts: [String] = []
    texts.reserveCapacity(list.count)
    for element in list {
      guard let text = element as? String else { throw error("\"\(key)\" is not a list of texts: [\"...\"]") }
      texts.append(text)
    }
    return texts
  }

  func textMap(_ key: String) throws(UsageError) -> [String: String]? {
    guard let value = fields[key] else { return nil }
    guard let map = value as? [String: Any] else { throw error("\"\(key)\" is not an object of texts: { \"NAME\": \"value\" }") }
    var result: [String: String] = [:]
    for (name, value) in map {
      guard let text = value as? String else { throw error("\"\(key)\": \"\(name)\" is not a text: \"...\"") }
      guard !name.isEmpty, !name.contains("="), !name.utf8.contains(0), !text.utf8.contains(0) else {
        throw error("\"\(key)\": \"\(name)\" can't be a variable")
      }
      result[name] = text
    }
    return result
  }

  func integer(_ key: String) throws(UsageError) -> Int? {
    guard let value = fields[key] else { return nil }
    // `true` is a number to Foundation.
    let isBool = (value as? NSNumber).map { String(cString: $0.objCType) == "c" } ?? (value is Bool)
    guard !isBool, let number = value as? Double, let integer = Int(exactly: number) else {
      throw error("\"\(key)\" is not a whole number")
    }
    return integer
  }

  func duration(_ key: String) throws(UsageError) -> Duration? {
    guard let value = fields[key] else { return nil }
    guard let text = value as? String else { throw error("\"\(key)\" is not a duration in quotes, such as \"30s\"") }
    guard let duration = Duration(text: text) else { throw error("\"\(key)\": \(Duration.complaint(about: text))") }
    return duration
  }
}
