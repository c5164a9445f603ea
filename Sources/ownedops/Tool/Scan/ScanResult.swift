import Foundation

/// What a scan has found, and how it is shown.
struct ScanResult {
  let roots: [DirectoryNode]
  let groups: [DuplicateGroup]
  let emptyFiles: [[UInt8]]
  let tally: Census.Tally
  let problems: [Census.Problem]
  let jobs: JobCounts
  let engine: String
  let seconds: Double
  let bytesRead: Int
  let endedEarly: Bool

  // MARK: Text

  func write(to console: Console, _ options: ScanOptions, reason: String?) {
    var text = ""
    func flush(_ limit: Int) {
      guard text.utf8.count > limit else { return }
      console.write(text)
      text = ""
    }
    for group in groups.prefix(options.mostGroups) {
      text += "\(Shown.count(group.files.count)) files of \(Shown.bytes(group.size)), \(Shown.bytes(group.excess)) too much\n"
      for file in group.files { text += "  \(file.path.escapedName)\n" }
      flush(1 << 16)
    }
    if groups.count > options.mostGroups { text += "and \(Shown.count(groups.count - options.mostGroups, "group")) more; see --top\n" }
    if !emptyFiles.isEmpty {
      text += "\(Shown.count(emptyFiles.count, "empty file"))\n"
      for path in emptyFiles {
        text += "  \(path.escapedName)\n"
        flush(1 << 16)
      }
    }
    if !text.isEmpty { text += "\n" }
    text += summaryText
    if let reason { text += endText(reason) }
    flush(0)
    if !options.isQuiet { noteProblems(console) }
  }

  /// Paths as they are, for other programs.
  func writePlain(to console: Console, _ options: ScanOptions, reason: String?) {
    let end: UInt8 = options.endsPathsWithNUL ? 0 : UInt8(ascii: "\n")
    var bytes: [UInt8] = []
    func add(_ group: some Sequence<[UInt8]>) {
      for path in group {
        bytes += path
        bytes.append(end)
      }
      bytes.append(end)
      guard bytes.count > 1 << 16 else { return }
      console.write(bytes)
      bytes = []
    }
    for group in groups.prefix(options.mostGroups) { add(group.files.lazy.map(\.path)) }
    if options.listsEmptyFiles, emptyFiles.count > 1 { add(emptyFiles) }
    console.write(bytes)
    guard !options.isQuiet else { return }
    if let reason { console.note("ownedops: \(reason): what was found by then has been printed") }
    noteProblems(console)
  }

  private var summaryText: String {
    let files = groups.reduce(0) { $0 + $1.files.count }
    let excess = groups.reduce(into: 0) { $0.addSaturating($1.excess) }
    var text = "\(Shown.count(tally.files, "file")) in \(Shown.count(tally.directories, "directory", plural: "directories")), "
    text += "\(Shown.bytes(tally.bytes)); \(Shown.bytes(bytesRead)) read in \(Shown.seconds(seconds))\n"
    text += "\(Shown.count(groups.count, "group")) of duplicates: \(Shown.count(files, "file")), \(Shown.bytes(excess)) could be freed\n"
    var asides: [String] = []
    func aside(_ count: Int, _ noun: String, _ plural: String? = nil) {
      if count > 0 { asides.append(Shown.count(count, noun, plural: plural)) }
    }
    aside(tally.emptyFiles, "empty file")
    aside(tally.hardLinks, "further hard link")
    aside(tally.symbolicLinks, "symbolic link not followed", "symbolic links not followed")
    aside(tally.specialFiles, "special file skipped", "special files skipped")
    aside(tally.excluded, "excluded entry", "excluded entries")
    aside(tally.unreadable, "unreadable entry", "unreadable entries")
    aside(tally.vanished, "entry vanished meanwhile", "entries vanished meanwhile")
    aside(tally.changed, "file changed meanwhile", "files changed meanwhile")
    if !asides.isEmpty { text += "apart from that: \(asides.joined(separator: ", "))\n" }
    if !endedEarly {
      for (directory, totals) in heaviest {
        text += "  \(directory.escapedName): \(Shown.bytes(totals.duplicateBytes)) in \(Shown.count(totals.duplicates, "duplicate"))\n"
      }
    }
    return text
  }

  /// The directories right below the roots, and roots if there are several, with the most to be freed.
  private var heaviest: [(directory: [UInt8], totals: DirectoryTotals)] {
    let shown = roots.flatMap { (roots.count > 1 ? [$0] : []) + $0.subdirectories }
    return shown.filter { $0.totals.duplicateBytes > 0 }
      .map { (directory: $0.path, totals: $0.totals) }
      .sorted {
        ($1.totals.duplicateBytes, $0.directory.escapedName) < ($0.totals.duplicateBytes, $1.directory.escapedName)
      }
      .prefix(5).map { $0 }
  }

  private func endText(_ reason: String) -> String {
    let underWay = jobs.underWayAtEnd > 0 ? " (\(Shown.count(jobs.underWayAtEnd)) under way)" : ""
    return """
      \(reason): the owners at work ended, what is above is what was found by then
      jobs: \(Shown.count(jobs.finished)) finished, \(Shown.count(jobs.pendingAtEnd)) pending at the end, \
      \(Shown.count(jobs.cancelled)) cancelled, \(Shown.count(jobs.startedAfterEnd)) started after the end\(underWay); \
      all quiet \(Shown.seconds(jobs.secondsAfterEnd)) later

      """
  }

  private func noteProblems(_ console: Console) {
    for problem in problems.prefix(20) {
      console.note("ownedops: can't read \(problem.path.escapedName): \(RawFile.message(problem.error))")
    }
    if tally.unreadable > 20 { console.note("ownedops: and \(Shown.count(tally.unreadable - 20)) more that can't be read") }
  }

  // MARK: JSON

  private struct Document: Encodable {
    struct Name: Encodable {
      let path: String
      /// The bytes, where they are not text.
      let base64: String?

      init(_ path: [UInt8]) {
        let text = String(validating: path, as: UTF8.self)
        self.path = text ?? path.escapedName
        base64 = text == nil ? Data(path).base64EncodedString() : nil
      }
    }

    struct Group: Encodable {
      let size: Int
      let excess: Int
      let files: [Name]
    }

    struct Problem: Encodable {
      let file: Name
      let error: String
    }

    struct Root: Encodable {
      let directory: Name
      let files: Int
      let bytes: Int
      let duplicates: Int
      let duplicateBytes: Int
    }

    struct Run: Encodable {
      let engine: String
      let seconds: Double
      let processorSeconds: Double
      let peakMemory: Int
      let bytesRead: Int
      let jobs: JobCounts
      let endedBy: String?
    }

    /// The version of this form. It is raised when something is renamed, removed or means something else, not when something is added.
    let version: Int
    let groups: [Group]
    let emptyFiles: [Name]?
    let counts: Census.Tally
    let problems: [Problem]
    let roots: [Root]
    let run: Run
  }

  /// - Returns: false if that failed, which has been said.
  func writeJSON(to console: Console, _ options: ScanOptions, reason: String?) -> Bool {
    let cost = ProcessCost.now
    let document = Document(
      version: 1,
      groups: groups.prefix(options.mostGroups).map { group in
        Document.Group(size: group.size, excess: group.excess, files: group.files.map { Document.Name($0.path) })
      },
      emptyFiles: options.listsEmptyFiles ? emptyFiles.map(Document.Name.init) : nil,
      counts: tally,
      problems: problems.map { Document.Problem(file: Document.Name($0.path), error: RawFile.message($0.error)) },
      roots: roots.map { root in
        Document.Root(
          directory: Document.Name(root.path), files: root.totals.files, bytes: root.totals.bytes, duplicates: root.totals.duplicates,
          duplicateBytes: root.totals.duplicateBytes)
      },
      run: Document.Run(
        engine: engine, seconds: seconds, processorSeconds: cost.processorTime, peakMemory: cost.peakMemory, bytesRead: bytesRead,
        jobs: jobs,
        endedBy: reason))
    return console.writeJSON(of: document)
  }
}
