import Foundation
import OwnedOperations
import Synchronization

/// One scan, from the first listing to the last summary.
///
/// First every directory is listed: a job lists some, and makes the jobs of those below that it has not come to. Then files of equal size
/// are known, and one graph follows:
/// - fingerprints, biggest files first
/// - for each size, or a few, after their fingerprints, the comparison, which for large files comes after several jobs that compare a part
///   of each
/// - for each root and what is right below it, after their files', the summary.
///
/// A job belongs to the nearest directory that holds all that it looks at.
final class ScanSession<Engine: ScanEngine>: Sendable {
  private let engine: Engine
  private let options: ScanOptions
  private let listing: Listing
  private let directories = OpenDirectories()
  private let recorder: JobRecorder?
  private let groups = Guarded<[DuplicateGroup]>([])
  private let duplicates = Guarded<[Int: DirectoryTotals]>([:])
  private let emptyFiles = Guarded<[[UInt8]]>([])
  private let bytesRead = Atomic<Int>(0)
  private let candidateCount = Atomic<Int>(0)
  private let fingerprinted = Atomic<Int>(0)

  let census: Census
  let meter: JobMeter

  init(_ engine: Engine, _ options: ScanOptions, recorder: JobRecorder?, didBegin: (@Sendable (Int) -> Void)? = nil) {
    self.engine = engine
    self.options = options
    self.recorder = recorder
    meter = JobMeter(places: engine.workers, didBegin: didBegin)
    census = Census()
    listing = Listing(settings: options.listing, census: census, directories: directories)
  }

  /// Blocks until all is done, or the owners have ended.
  /// - Parameter announce: told of each stage.
  func run(roots: [DirectoryNode], announce: (String) -> Void) {
    submit(roots.map { listingJob([$0], owner: $0) })
    engine.waitUntilFinished()
    census.forgetEntered()
    let tally = census.tally
    announce("listed \(Shown.count(tally.files, "file")) in \(Shown.count(tally.directories, "directory", plural: "directories"))")
    defer { recorder?.cancelExpected() }
    guard !meter.shouldStop else { return }
    compare(roots, announce)
    engine.waitUntilFinished()
  }

  /// Ends all owners. Any thread.
  func end() {
    if meter.end({ engine.end() }) { recorder?.mark("owners ended") }
  }

  // MARK: Jobs

  private func submit(_ jobs: [Engine.Job]) {
    meter.submit(jobs.count)
    engine.submit(jobs)
  }

  private func job(
    _ kind: String, _ owner: DirectoryNode, priority: Operation.QueuePriority, _ body: @escaping @Sendable () -> Void
  ) -> Engine.Job {
    let label = recorder.map { recorder in
      let label = owner.topName.escapedName
      recorder.expect(name: kind, owner: label)
      return label
    }
    return engine.makeJob(owner: owner, priority: priority) { [meter, recorder] in
      let isLate = meter.begin()
      defer { meter.returned(late: isLate) }
      // What has been begun too late, on an engine that does that, at least does nothing.
      guard !meter.shouldStop else { return }
      let mark = recorder?.begin()
      body()
      if let mark, let label { recorder?.end(mark, name: kind, owner: label, outcome: meter.shouldStop ? .cancelled : .succeeded) }
      if !meter.shouldStop { meter.complete() }
    }
  }

  /// So many directories at most are listed by one job.
  private static var mostListed: Int { 32 }
  /// So many neighbours at most are left to another.
  private static var mostLeft: Int { 16 }

  private func listingJob(_ nodes: [DirectoryNode], owner: DirectoryNode) -> Engine.Job {
    job("list", owner, priority: .normal) { [self] in
      let shouldStop = { [meter] in meter.shouldStop }
      var contents = DirectoryNode.Contents()
      var rest = Array(nodes.reversed())
      var listed = 0
      while listed < Self.mostListed, let node = rest.popLast() {
        rest += listing.list(node, &contents, shouldStop: shouldStop).reversed()
        listed += 1
        guard !shouldStop() else { return }
      }
      submit(neighbours(rest.reversed()))
    }
  }

  private func neighbours(_ nodes: [DirectoryNode]) -> [Engine.Job] {
    var jobs: [Engine.Job] = []
    var rest = nodes[...]
    while let first = rest.first {
      let some = rest.prefix(Self.mostLeft).prefix { $0.parent === first.parent }
      jobs.append(listingJob(Array(some), owner: some.count == 1 ? first : first.parent ?? first))
      rest = rest.dropFirst(some.count)
    }
    return jobs
  }

  private func compare(_ roots: [DirectoryNode], _ announce: (String) -> Void) {
    let plan = ScanPlan(roots: roots, sizes: options.sizes, keepsEmptyFiles: options.listsEmptyFiles)
    census.add(plan.extraLinks)
    if options.listsEmptyFiles { emptyFiles.withLock { $0 = plan.emptyFiles.map(\.path) } }
    candidateCount.store(plan.candidates.count, ordering: .relaxed)
    announce("\(Shown.count(plan.candidates.count, "file")) to be compared")

    let table = plan.candidates
    // At once: they wait for nothing, and the rest of the graph is made meanwhile.
    let fingerprints = plan.batches.map { fingerprintJob($0, table) }
    submit(fingerprints)
    let summaries = plan.summaries.map { summaryJob($0, plan.nodes) }
    for (place, summary) in plan.summaries.enumerated() {
      for part in summary.parts { engine.add(dependency: summaries[part], to: summaries[place]) }
    }
    // A summary needs no fingerprint but by the comparisons, which come after them.
    var comparisons: [Engine.Job] = []
    comparisons.reserveCapacity(plan.comparisons.count)
    // The last comparison that has been joined to each, so that none is twice.
    var joined = Array(repeating: -1, count: plan.summaries.count)
    for (number, comparison) in plan.comparisons.enumerated() {
      let classes = plan.classes[comparison.classes]
      let parted = PartedConfirmation(classes, workers: engine.workers)
      let owner = plan.owner(of: comparison)
      let job = comparisonJob(classes, table, parted, owner, largest: comparison.largest)
      var before = fingerprints[comparison.batches]
      if let parted {
        let parts = parted.parts.map { partJob($0, table, parted, owner) }
        for part in parts { for fingerprint in before { engine.add(dependency: fingerprint, to: part) } }
        before = parts[...]
        comparisons += parts
      }
      comparisons.append(job)
      for earlier in before { engine.add(dependency: earlier, to: job) }
      for place in comparison.places {
        let summary = Int(plan.summaryOfNode[table.directory(of: place).index])
        guard joined[summary] != number else { continue }
        joined[summary] = number
        engine.add(dependency: job, to: summaries[summary])
      }
    }
    submit(comparisons + summaries)
  }

  private func reader(_ table: CandidateTable, _ parted: PartedConfirmation? = nil) -> CandidateReader {
    CandidateReader(
      table, census, directories, shouldStop: { [meter] in meter.shouldStop }, note: { parted?.note($0) ?? true })
  }

  private func fingerprintJob(_ batch: ScanPlan.Batch, _ table: CandidateTable) -> Engine.Job {
    job("fingerprint", batch.owner, priority: ScanPlan.priority(ofSize: batch.largest)) { [self] in
      let reader = reader(table)
      defer { bytesRead.add(reader.bytesRead, ordering: .relaxed) }
      for place in batch.places {
        if let fingerprint = reader.fingerprint(of: Int(place)) { table.setFingerprint(fingerprint, of: Int(place)) }
        guard !meter.shouldStop else { return }
        fingerprinted.add(1, ordering: .relaxed)
      }
    }
  }

  private func partJob(
    _ part: Range<Int>, _ table: CandidateTable, _ parted: PartedConfirmation, _ owner: DirectoryNode
  ) -> Engine.Job {
    job("compare", owner, priority: ScanPlan.priority(ofSize: part.upperBound)) { [self] in
      let reader = reader(table, parted)
      defer { bytesRead.add(reader.bytesRead, ordering: .relaxed) }
      parted.compare(part, Confirmation(reader: reader, table: table))
    }
  }

  private func comparisonJob(
    _ classes: ArraySlice<ScanPlan.SizeClass>, _ table: CandidateTable, _ parted: PartedConfirmation?, _ owner: DirectoryNode,
    largest: Int
  ) -> Engine.Job {
    job("compare", owner, priority: ScanPlan.priority(ofSize: largest)) { [self] in
      if let parted {
        for places in parted.groups { add(places, of: table, size: largest) }
        return
      }
      let reader = reader(table)
      defer { bytesRead.add(reader.bytesRead, ordering: .relaxed) }
      for sizeClass in classes {
        guard !meter.shouldStop, let found = Confirmation(reader: reader, table: table).groups(sizeClass) else { return }
        for places in found { add(places, of: table, size: sizeClass.size) }
      }
    }
  }

  private func add(_ places: [Int], of table: CandidateTable, size: Int) {
    let sorted = places.map { (place: $0, path: table[$0].path) }.sorted { $0.path.lexicographicallyPrecedes($1.path) }
    let members = sorted.map { DuplicateGroup.Member(directory: table[$0.place].directory, file: table[$0.place].file) }
    groups.withLock { $0.append(DuplicateGroup(size: size, files: members)) }
    duplicates.withLock { duplicates in
      for member in members.dropFirst() {
        duplicates[member.directory.index, default: DirectoryTotals()].duplicates += 1
        duplicates[member.directory.index, default: DirectoryTotals()].duplicateBytes.addSaturating(size)
      }
    }
  }

  private func summaryJob(_ summary: ScanPlan.Summary, _ nodes: [DirectoryNode]) -> Engine.Job {
    job("summarise", summary.owner, priority: .normal) { [self] in
      let found = duplicates.withLock { $0 }
      // From below.
      for place in summary.nodes.reversed() {
        let node = nodes[place]
        if let found = found[place] { node.totals.add(found) }
        for below in node.subdirectories { node.totals.add(below.totals) }
      }
    }
  }

  // MARK: Results

  /// One line about how far it has come.
  var progress: String {
    let tally = census.tally
    let total = candidateCount.load(ordering: .relaxed)
    guard total > 0 else {
      return "listing: \(Shown.count(tally.files, "file")) in \(Shown.count(tally.directories, "directory", plural: "directories"))"
    }
    let done = fingerprinted.load(ordering: .relaxed)
    let found = groups.withLock { $0.count }
    return "comparing: \(Shown.count(done)) of \(Shown.count(total, "file")) read, \(Shown.count(found, "group")) of duplicates"
  }

  /// To be asked when nothing runs any more.
  func result(roots: [DirectoryNode], engineName: String, seconds: Double) -> ScanResult {
    let sorted = groups.withLock { $0 }.map { (group: $0, path: $0.files[0].path) }.sorted {
      if $0.group.excess != $1.group.excess { return $0.group.excess > $1.group.excess }
      return $0.path.lexicographicallyPrecedes($1.path)
    }
    return ScanResult(
      roots: roots, groups: sorted.map(\.group), emptyFiles: emptyFiles.withLock { $0 }.sorted { $0.lexicographicallyPrecedes($1) },
      tally: census.tally, problems: census.problems.sorted { $0.path.lexicographicallyPrecedes($1.path) }, jobs: meter.counts,
      engine: engineName, seconds: seconds, bytesRead: bytesRead.load(ordering: .relaxed), endedEarly: meter.shouldStop)
  }
}
