/// What a run that goes on with a journal need not do again, and what it has to write down before it begins.
///
/// Rules:
/// - A job is done if it has succeeded, is unchanged, and all that it depends on is done.
/// - What is selected, has succeeded and is not done is written down as `again` before anything is started.
/// - The journal is that of the whole graph, whichever of its jobs are selected to run now.
/// - What is not selected stays as it is, but for what depends on a job that runs now: that has to run again, too.
struct Resumption: Sendable {
  /// In the order of the graph's file, without jobs that are not selected.
  private(set) var isDone: [Bool]
  /// Of these.
  private(set) var doneCount = 0
  /// The lines that go before everything else.
  private(set) var lines: [UInt8] = []
  /// For people.
  private(set) var notes: [String] = []
  /// Have succeeded while no runner was there.
  private var unseen: [Int] = []

  /// For a journal that is new.
  init(jobs: Int) { isDone = Array(repeating: false, count: jobs) }

  /// - Parameters:
  ///   - file: the whole graph.
  ///   - selection: the jobs that are to run now, with all that they depend on; nil: all.
  ///   - keepsEnds: the same run goes on: what has succeeded is done, whatever it depends on.
  ///   - doubtful: may have run, though no end of them is known: names.
  init(
    _ journal: Journal, _ file: RunFile, selection: [Bool]? = nil, path: String, keepsEnds: Bool = false, doubtful: [String]
  ) throws(UsageError) {
    isDone = Array(repeating: false, count: file.jobs.count)
    try Self.check(journal, file, path: path)
    for name in doubtful {
      lines += JournalEvent.again(job: name, reason: "its keeper was killed while it ran, or was about to").line()
    }
    if !doubtful.isEmpty {
      let pronoun = doubtful.count == 1 ? "it runs" : "they run"
      notes.append("a keeper was killed: \(Self.list(doubtful)) may have run already; \(pronoun) again, at least once in all")
    }
    note(journal.tornLines, path)
    decide(journal, file, selection, keepsEnds, order: Self.order(of: file))
    if let selection { isDone = zip(isDone, selection).filter(\.1).map(\.0) }
    doneCount = isDone.count { $0 }
  }

  private static func check(_ journal: Journal, _ file: RunFile, path: String) throws(UsageError) {
    guard journal.graph != JournalHead.hash(of: file) || journal.jobs.count != file.jobs.count else { return }
    let names = Set(file.jobs.map(\.name))
    let reason =
      if let extra = file.jobs.first(where: { journal.places[$0.name] == nil }) {
        "it knows no job \(Array(extra.name.utf8).escapedName)"
      } else if let missing = journal.jobs.first(where: { !names.contains($0.definition.name) }) {
        "it has a job \(Array(missing.definition.name.utf8).escapedName), which is not in the file"
      } else {
        "its hash is another"
      }
    throw UsageError("--resume: \(path) is the journal of another graph: \(reason); give another journal, or remove it to begin anew")
  }

  private mutating func note(_ torn: [Int], _ path: String) {
    guard !torn.isEmpty else { return }
    let lines = "line\(torn.count == 1 ? "" : "s") \(torn.prefix(5).map(String.init).joined(separator: ", "))"
    notes.append("\(path): \(lines)\(torn.count > 5 ? " and \(torn.count - 5) more" : "") not whole, and dropped")
  }

  /// Places, each after those that it depends on. The graph has no circles.
  private static func order(of file: RunFile) -> [Int] {
    var waitsFor = file.jobs.map(\.after.count)
    var dependents = Array(repeating: [Int](), count: file.jobs.count)
    for (place, job) in file.jobs.enumerated() { for other in job.after { dependents[other].append(place) } }
    var order = waitsFor.indices.filter { waitsFor[$0] == 0 }
    var next = 0
    while next < order.count {
      for dependent in dependents[order[next]] {
        waitsFor[dependent] -= 1
        if waitsFor[dependent] == 0 { order.append(dependent) }
      }
      next += 1
    }
    return order
  }

  private mutating func decide(_ journal: Journal, _ file: RunFile, _ selection: [Bool]?, _ keepsEnds: Bool, order: [Int]) {
    var changes: [(name: String, what: String)] = []
    var followers = 0
    // Or has to, because of what runs now.
    var runsNow = Array(repeating: false, count: file.jobs.count)
    for place in order {
      let job = file.jobs[place]
      guard let known = journal.places[job.name].map({ journal.jobs[$0] }) else { continue }
      let definition = JournalDefinition(job, in: file)
      let change = definition.change(from: known.definition)
      guard selection?[place] ?? true else {
        runsNow[place] = job.after.contains { runsNow[$0] }
        if runsNow[place], known.hasSucceeded { lines += Self.follower(job) }
        continue
      }
      if definition != known.definition, !known.hasSucceeded || change != nil {
        // It forgets what became of it, too.
        lines += definition.line
      }
      defer { runsNow[place] = !isDone[place] }
      guard known.hasSucceeded else { continue }
      if let change {
        changes.append((job.name, change))
      } else if keepsEnds || job.after.allSatisfy({ isDone[$0] }) {
        isDone[place] = true
        if known.state == .exited { unseen.append(place) }
      } else {
        followers += 1
        lines += Self.follower(job)
      }
    }
    // Only now: the owner of a job that is done may be another, which changes nothing.
    for place in unseen {
      let attempt = journal.places[file.jobs[place].name].map { journal.jobs[$0].attempt } ?? 1
      lines += JournalEvent.succeeded(job: file.jobs[place].name, attempts: attempt).line()
    }
    if !unseen.isEmpty { notes.append("succeeded while no runner was there: \(Self.list(unseen.map { file.jobs[$0].name }))") }
    if !changes.isEmpty {
      let what = Set(changes.map(\.what))
      let kind = what.count == 1 ? "the \(what.first ?? "") of" : "what is said of"
      let verb = what == ["dependencies"] ? "have" : "has"
      var note = "\(kind) \(Self.list(changes.map(\.name))) \(verb) changed: \(changes.count == 1 ? "it runs" : "they run") again"
      if followers > 0 { note += ", and \(Shown.count(followers, "job")) that depend\(followers == 1 ? "s" : "") on that" }
      notes.append(note)
    }
  }

  private static func follower(_ job: RunFile.Job) -> [UInt8] {
    JournalEvent.again(job: job.name, reason: "what it depends on runs again").line()
  }

  static func list(_ names: [String]) -> String {
    let shown = names.prefix(names.count > 10 ? 9 : 10).map { Array($0.utf8).escapedName }.joined(separator: ", ")
    return names.count > 10 ? "\(shown) and \(Shown.count(names.count - 9)) more" : shown
  }
}
