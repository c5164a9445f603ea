import Foundation
import OwnedOperations
import Synchronization

/// One scan, from the first listing to the last summary.
///
/// First every directory is listed: a job for each, which makes the jobs of those below. Then files of equal size are known, and one graph
/// follows: fingerprints, biggest files first; for each size, or a few, after the fingerprints, the comparison; for each directory, after its files' and its subdirectories', the summary.
final class ScanSession<Engine: ScanEngine>: Sendable {
  private let engine: Engine
  private let options: ScanOptions
  private let listing: Listing
  private let recorder: JobRecorder?
  private let nodes = Guarded<[DirectoryNode]>([])
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
    listing = Listing(settings: options.listing, census: census)
  }

  /// Blocks until all is done, or the owners have ended.
  /// - Parameter announce: told of each stage.
  func run(roots: [DirectoryNode], announce: (String) -> Void) {
    submit(roots.map(listingJob))
    engine.waitUntilFinished()
    let tally = census.tally
    announce("listed \(Shown.count(tally.files, "file")) in \(Shown.count(tally.directories, "directory", plural: "directories"))")
    defer { recorder?.cancelExpected() }
    guard !meter.shouldStop else { return }
    compare(announce)
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
      let label = (owner.line.prefix(2).last?.name ?? owner.name).escapedName
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

  private func listingJob(_ node: DirectoryNode) -> Engine.Job {
    job("list", node, priority: .normal) { [self] in
      let below = listing.list(node, shouldStop: { [meter] in meter.shouldStop })
      nodes.withLock { $0.append(node) }
      if !below.isEmpty, !meter.shouldStop { submit(below.map(listingJob)) }
    }
  }

  private func compare(_ announce: (String) -> Void) {
    let nodes = nodes.withLock { $0 }
    let plan = ScanPlan(nodes, smallest: options.smallestSize, keepsEmptyFiles: options.listsEmptyFiles)
    census.add(plan.extraLinks)
    emptyFiles.withLock { $0 = plan.emptyFiles.map { $0.directory.path(of: $0.directory.name(of: $0.file)) } }
    candidateCount.store(plan.candidates.count, ordering: .relaxed)
    announce("\(Shown.count(plan.candidates.count, "file")) to be compared")

    let table = plan.candidates
    // At once: they wait for nothing, and the rest of the graph is made meanwhile.
    let fingerprints = plan.batches.map { fingerprintJob($0, table) }
    submit(fingerprints)
    let summaries = nodes.map(summaryJob)
    for (place, node) in nodes.enumerated() {
      for below in node.subdirectories where nodes.indices.contains(below.index) && nodes[below.index] === below {
        engine.add(dependency: summaries[below.index], to: summaries[place])
      }
    }
    // A summary needs no fingerprint but by the comparisons, which come after them.
    var comparisons: [Engine.Job] = []
    comparisons.reserveCapacity(plan.comparisons.count)
    // The last comparison that has been joined to each, so that none is twice.
    var joinedBatches = Array(repeating: -1, count: plan.batches.count)
    var joinedDirectories = Array(repeating: -1, count: nodes.count)
    for (number, comparison) in plan.comparisons.enumerated() {
      let job = comparisonJob(plan.classes[comparison.classes], table, largest: comparison.largest)
      comparisons.append(job)
      for place in comparison.places {
        let batch = Int(plan.batchOfCandidate[place])
        guard joinedBatches[batch] != number else { continue }
        joinedBatches[batch] = number
        engine.add(dependency: fingerprints[batch], to: job)
        let directory = plan.batches[batch].directory.index
        guard joinedDirectories[directory] != number else { continue }
        joinedDirectories[directory] = number
        engine.add(dependency: job, to: summaries[directory])
      }
    }
    submit(comparisons + summaries)
  }

  private func fingerprintJob(_ batch: ScanPlan.Batch, _ table: CandidateTable) -> Engine.Job {
    job("fingerprint", batch.directory, priority: ScanPlan.priority(ofSize: batch.largest)) { [self] in
      let descriptor = batch.directory.openDirectory()
      guard descriptor >= 0 else {
        census.note(error: -descriptor, at: batch.directory.path, isDirectory: true)
        return
      }
      defer { close(descriptor) }
      let reader = CandidateReader(census, shouldStop: { [meter] in meter.shouldStop })
      for place in batch.places {
        switch reader.fingerprint(of: table[place], in: descriptor) {
        case .value(let fingerprint): table[place].fingerprint = fingerprint
        case .unreadable: break
        case .stopped: return
        }
        fingerprinted.add(1, ordering: .relaxed)
      }
      bytesRead.add(reader.bytesRead, ordering: .relaxed)
    }
  }

  private func comparisonJob(_ classes: ArraySlice<ScanPlan.SizeClass>, _ table: CandidateTable, largest: Int) -> Engine.Job {
    let owner = table[classes[classes.startIndex].places.lowerBound].directory
    return job("compare", owner, priority: ScanPlan.priority(ofSize: largest)) { [self] in
      let reader = CandidateReader(census, shouldStop: { [meter] in meter.shouldStop })
      defer { bytesRead.add(reader.bytesRead, ordering: .relaxed) }
      for sizeClass in classes {
        guard !meter.shouldStop, let found = Confirmation(reader: reader).groups(in: table, sizeClass) else { return }
        for places in found { add(places, of: table, size: sizeClass.size) }
      }
    }
  }

  private func add(_ places: [Int], of table: CandidateTable, size: Int) {
    let sorted = places.map { (place: $0, path: table[$0].path) }.sorted { $0.path.lexicographicallyPrecedes($1.path) }
    let members = sorted.map { DuplicateGroup.Member(directory: table[$0.place].directory, name: table[$0.place].name) }
    groups.withLock { $0.append(DuplicateGroup(size: size, files: members)) }
    duplicates.withLock { duplicates in
      for member in members.dropFirst() {
        duplicates[member.directory.index, default: DirectoryTotals()].duplicates += 1
        duplicates[member.directory.index, default: DirectoryTotals()].duplicateBytes += size
      }
    }
  }

  private func summaryJob(_ node: DirectoryNode) -> Engine.Job {
    job("summarise", node, priority: .normal) { [self] in
      if let found = duplicates.withLock({ $0[node.index] }) { node.totals.add(found) }
      for below in node.subdirectories { node.totals.add(below.totals) }
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
