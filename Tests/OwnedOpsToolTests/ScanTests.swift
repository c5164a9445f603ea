import Foundation
import OwnedOperations
import Synchronization
import Testing

@testable import OwnedOpsTool

@Suite(.timeLimit(.minutes(1)))
struct ScanTests {
  private struct Answer: Decodable {
    struct Group: Decodable, Equatable {
      struct File: Decodable, Equatable {
        let path: String
        let base64: String?
      }
      let size: Int
      let files: [File]
    }
    struct Run: Decodable {
      let endedBy: String?
      let peakMemory: Int
      let jobs: JobCounts
    }
    struct Root: Decodable {
      let files: Int
      let duplicates: Int
      let duplicateBytes: Int
    }
    let groups: [Group]
    let counts: Census.Tally
    let roots: [Root]
    let run: Run

    var paths: [[String]] { groups.map { $0.files.map(\.path) } }
  }

  private func scan(_ arguments: [String], in directory: TemporaryDirectory, status: Int32 = 0) async throws -> Answer {
    let outcome = try await ToolBinary.run(["scan", "--json", "--quiet"] + arguments, in: directory)
    #expect(outcome.status == status, "\(outcome.errors)")
    return try JSONDecoder().decode(Answer.self, from: Data(outcome.output.utf8))
  }

  @Test func filesAreDuplicatesOnlyIfEveryByteIsTheSame() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    // Beyond the part that is fingerprinted: same size, same beginning, another last byte.
    let same = Data(repeating: 7, count: 200_000)
    var other = same
    other[199_999] = 8
    for (name, data) in [
      ("a/one", same), ("b/two", same), ("c", same), ("d", other), ("e", other), ("f", Data("x".utf8)), ("g", Data("y".utf8)),
    ] {
      try directory.write(name, data)
    }
    let answer = try await scan([], in: directory)
    #expect(answer.paths == [["./a/one", "./b/two", "./c"], ["./d", "./e"]])
    #expect(answer.roots.first?.duplicates == 3)
    #expect(answer.roots.first?.duplicateBytes == 600_000)
    #expect(answer.roots.first?.files == 7)
  }

  @Test func linksLoopsAndSpecialFilesAreCountedOnceAndNotFollowed() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("a/file", "content")
    try directory.write("a/empty", "")
    try directory.write("b/empty", "")
    #expect(link(directory.path + "/a/file", directory.path + "/b/linked") == 0)
    #expect(symlink("..", directory.path + "/a/loop") == 0)
    #expect(symlink("nowhere", directory.path + "/a/dangling") == 0)
    #expect(mkfifo(directory.path + "/a/pipe", 0o600) == 0)
    let answer = try await scan([".", "./a", "."], in: directory)
    #expect(answer.groups.isEmpty)
    #expect(answer.counts.files == 3)
    #expect(answer.counts.bytes == 7)
    #expect(answer.counts.directories == 3)
    #expect(answer.counts.hardLinks == 1)
    #expect(answer.counts.emptyFiles == 2)
    #expect(answer.counts.symbolicLinks == 2)
    #expect(answer.counts.specialFiles == 1)

    let text = try await ToolBinary.run(["scan", "--empty"], in: directory)
    #expect(text.output.contains("2 empty files\n  ./a/empty\n  ./b/empty\n"))
  }

  @Test func namesThatAreNotTextAreShownEscaped() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    for name in [[0x61, 0xff, 0x0a], [0x62, 0xc3, 0xa9]] as [[UInt8]] {
      let path = Array(directory.path.utf8) + [UInt8(ascii: "/")] + name + [0]
      let descriptor = path.withUnsafeBytes { open($0.assumingMemoryBound(to: CChar.self).baseAddress!, O_WRONLY | O_CREAT, 0o600) }
      try #require(descriptor >= 0)
      #expect(write(descriptor, "same", 4) == 4)
      close(descriptor)
    }
    let answer = try await scan([], in: directory)
    #expect(answer.paths == [["./a\\xff\\n", "./bé"]])
    #expect(answer.groups.first?.files.first?.base64 == Data(Array("./a".utf8) + [0xff, 0x0a]).base64EncodedString())
    let text = try await ToolBinary.run(["scan"], in: directory)
    #expect(text.output.contains("  ./a\\xff\\n\n  ./bé\n"))
  }

  /// On file systems that have such. They are too large to be compared, and are counted.
  @Test func filesThatAreLargerTogetherThanANumberHoldsAreCounted() async throws {
    let directory = try TemporaryDirectory(in: "/dev/shm")
    defer { directory.remove() }
    let names = ["a", "b", "c/d", "c/e"]
    do {
      for name in names { try directory.writeSparse(name, size: .max) }
    } catch {
      print("no file system for such files here; not tested")
      return
    }
    let outcome = try await ToolBinary.run(["scan", "--json", "-q", "--max-size", "1T"], in: directory)
    #expect(outcome.status == 0, "\(outcome.errors)")
    #expect(outcome.output.contains(#""bytes" : 9223372036854775807"#) && outcome.output.contains(#""files" : 4"#), "\(outcome.output)")
  }

  @Test func pathsLongerThanTheSystemTakesAreRead() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    var descriptor = open(directory.path, O_RDONLY | O_DIRECTORY)
    let component = String(repeating: "d", count: 200)
    for _ in 0..<30 {
      #expect(mkdirat(descriptor, component, 0o700) == 0)
      let next = openat(descriptor, component, O_RDONLY | O_DIRECTORY)
      close(descriptor)
      try #require(next >= 0)
      descriptor = next
    }
    for name in ["one", "two"] {
      let file = openat(descriptor, name, O_WRONLY | O_CREAT, 0o600)
      #expect(write(file, "same", 4) == 4)
      close(file)
    }
    close(descriptor)
    let answer = try await scan([], in: directory)
    #expect(answer.groups.first?.files.count == 2)
    #expect((answer.groups.first?.files.first?.path.utf8.count ?? 0) > 6000)
    #expect(answer.counts.directories == 31)
  }

  @Test(.enabled(if: ToolBinary.unprivileged != nil, "root can read everything"))
  func whatCannotBeReadIsReportedAndNotFatal() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    for name in ["locked/x", "unsearchable/x", "a", "b", "secret"] { try directory.write(name, "same") }
    for (name, mode) in [("", 0o755), ("/locked", 0), ("/secret", 0), ("/unsearchable", 0o444)] as [(String, mode_t)] {
      #expect(chmod(directory.path + name, mode) == 0)
    }
    let outcome = try await ToolBinary.shell("\(try #require(ToolBinary.unprivileged)) \"$OWNEDOPS\" scan", in: directory)
    for name in ["/locked", "/unsearchable"] { chmod(directory.path + name, 0o700) }
    #expect(outcome.status == 4)
    #expect(outcome.output.contains("  ./a\n  ./b\n"))
    #expect(outcome.output.contains("3 unreadable entries"))
    for name in ["locked", "unsearchable/x", "secret"] { #expect(outcome.errors.contains("can't read ./\(name): Permission denied")) }
  }

  /// Sparse files take no room, however long. Together they may be longer than a number can tell.
  @Test func filesOfTheGreatestLengthAreCounted() {
    let lifetime = OwnerLifetime(name: "test")
    let root = DirectoryNode(root: Array("top".utf8), lifetime: lifetime)
    var status = stat()
    status.st_size = off_t.max
    status.st_nlink = 2
    var contents = DirectoryNode.Contents()
    for (inode, name) in [(1, "a"), (1, "b"), (2, "c"), (3, "d")] {
      status.st_ino = ino_t(inode)
      Array(name.utf8).withUnsafeBytes { contents.add($0, status, to: root, isLinked: true) }
    }
    contents.move(to: root)
    let plan = ScanPlan(roots: [root], sizes: 1...Int.max, keepsEmptyFiles: false)
    #expect(plan.classes.map(\.places.count) == [3] && plan.extraLinks.hardLinks == 1)
    #expect(root.totals.files == 3)
    var totals = DirectoryTotals(files: 1, bytes: .max, duplicates: 1, duplicateBytes: .max)
    totals.add(totals)
    #expect(totals.bytes == .max && totals.duplicateBytes == .max)
    let census = Census()
    for _ in 0..<2 { census.add(Census.Tally(bytes: .max)) }
    #expect(census.tally.bytes == .max)
    let member = DuplicateGroup.Member(directory: root, file: root.files[0])
    #expect(DuplicateGroup(size: .max, files: [member, member, member]).excess == .max)
  }

  @Test func aFileThatVanishesOrChangesAfterItsListingIsNotFatal() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    for name in ["gone", "grown", "a", "b"] { try directory.write(name, "same") }
    let session = Self.session(directory) { OwnedEngine(root: $0, workers: 2) }
    var isFirst = true
    session.run { _ in
      guard isFirst else { return }
      isFirst = false
      unlink(directory.path + "/gone")
      try? directory.write("grown", "not the same")
    }
    let result = session.result
    #expect(result.groups.map { $0.files.map { String(decoding: $0.name, as: UTF8.self) } } == [["a", "b"]])
    #expect(result.tally.vanished == 1)
    #expect(result.tally.changed == 1)
  }

  @Test func excludedEntriesAreLeftOut() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    for name in ["a.txt", "b.txt", "c.o", "build/d.txt", "src/gen/e.txt", "src/build"] { try directory.write(name, "same") }
    let answer = try await scan(["--exclude", "*.o", "-x", "build/", "--exclude=src/gen"], in: directory)
    #expect(answer.paths == [["./a.txt", "./b.txt", "./src/build"]])
    #expect(answer.counts.excluded == 3)
  }

  @Test func allEnginesGiveTheSameAnswer() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    for number in 0..<300 { try directory.write("d\(number % 17)/e\(number % 5)/f\(number)", String(repeating: "x", count: number % 40)) }
    let owned = try await scan([], in: directory)
    #expect(owned.groups.count == 39)
    for engine in ["operationqueue", "gcd"] {
      let other = try await scan(["--engine", engine], in: directory)
      #expect(other.groups == owned.groups)
      #expect(other.counts == owned.counts)
    }
    let table = try await ToolBinary.run(["scan", "--compare", "--quiet"], in: directory)
    #expect(table.status == 0)
    #expect(table.output.contains("same answer from all: 39 groups"))
    for engine in ["owned", "operationqueue", "gcd"] { #expect(table.output.contains("\n\(engine) ")) }
  }

  @Test func memoryStaysFlatHoweverLargeTheFiles() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    for name in ["a", "b"] { try directory.writeSparse(name, size: 1 << 30) }
    let answer = try await scan([], in: directory)
    #expect(answer.paths == [["./a", "./b"]])
    #expect(answer.run.peakMemory < 256 << 20)
  }

  @Test func comparingWithABudgetShowsWhatEachEngineWasted() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    for name in ["a", "b", "c"] { try directory.writeSparse(name, size: 1 << 40) }
    let table = try await ToolBinary.run(["scan", "--compare", "--quiet", "--budget", "100ms"], in: directory)
    #expect(table.status == 3)
    let lines = table.output.split(separator: "\n")
    #expect(lines.first?.hasSuffix("never run  run after end  time after end  CPU after end") == true)
    #expect(lines.dropFirst().prefix(3).map { $0.split(separator: " ").first } == ["owned", "operationqueue", "gcd"])
    #expect(lines.last == "the budget ended some, so their answers are not complete")
  }

  // MARK: Ends

  @Test func noJobStartsAfterItsOwnerEndsAndTheCounterCanTell() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    for number in 0..<4000 { try directory.write("d\(number / 20)/\(number)", "content \(number % 9)") }

    func counts<Engine: ScanEngine>(_ make: (OwnerLifetime) -> Engine) -> JobCounts {
      let session = Self.session(directory, make)
      var stages = 0
      session.run { _ in
        stages += 1
        // All has been listed; nothing of the graph has been submitted.
        if stages == 2 { session.end() }
      }
      return session.counts
    }
    let owned = counts { OwnedEngine(root: $0, workers: 2) }
    // 201 directories: the first job lists 32, the others 16 at most.
    #expect(owned.finished == 12)
    #expect(owned.startedAfterEnd == 0)
    #expect(owned.underWayAtEnd == 0)
    #expect(owned.cancelled == owned.submitted - 12)
    // Fingerprints of each directory's files, the comparison, and two summaries.
    #expect(owned.cancelled == 203)
    // The same on GCD, where every closure is called, to find that its owner has gone.
    let dispatch = counts { DispatchEngine(root: $0, workers: 2) }
    #expect(dispatch.submitted == owned.submitted)
    // Nothing ran at the end, so that the first of each of two places could have been under way, and no more.
    #expect(dispatch.underWayAtEnd == 2)
    #expect(dispatch.startedAfterEnd == owned.cancelled - 2)
  }

  @Test func aPictureShowsWhoseJobsNeverRanAndWhenTheyWereCancelled() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    for number in 0..<20 { for name in 0..<8 { try directory.write("d\(number)/\(name)", "content \(number % 9)") } }
    let recorder = JobRecorder()
    let session = Self.session(directory, { OwnedEngine(root: $0, workers: 2) }, recorder: recorder)
    var stages = 0
    session.run { _ in
      stages += 1
      if stages == 2 { session.end() }
    }
    let record = recorder.record
    let cancelled = record.events.filter { $0.outcome == .cancelled }
    #expect(cancelled.allSatisfy { $0.lane == nil && $0.start == record.instants.first?.time })
    #expect(cancelled.reduce(0) { $0 + $1.count } == session.counts.cancelled)
    #expect(cancelled.first { $0.owner == "d7" && $0.name == "fingerprint" }?.count == 1)
    #expect(record.events.count { $0.outcome == .succeeded && $0.name == "list" } == 1)
    let picture = TimelinePicture(record).svg
    #expect(picture.contains("never ran") && picture.contains("owners ended"))
    // Twelve rows: more owners than these are one.
    #expect(picture.components(separatedBy: "cancelled, never ran").count == 13)
    #expect(picture.contains(" others</text>"))
  }

  @Test func aStartUnderWayAtTheEndIsToldFromOneAfterIt() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    // More than sixty jobs list them.
    for number in 0..<1000 { try directory.write("d\(number)/f", "content \(number % 9)") }

    /// The third job is held between the decision to start it and its body, until the owners have ended.
    func counts<Engine: ScanEngine>(_ make: (OwnerLifetime) -> Engine) -> JobCounts {
      let isUnderWay = DispatchSemaphore(value: 0)
      let hasEnded = DispatchSemaphore(value: 0)
      let started = Atomic<Int>(0)
      let gated = { (root: OwnerLifetime) in
        GatedEngine(make(root)) {
          guard started.add(1, ordering: .relaxed).newValue == 3 else { return }
          isUnderWay.signal()
          hasEnded.wait()
        }
      }
      let session = Self.session(directory, gated)
      let ender = Thread {
        isUnderWay.wait()
        session.end()
        hasEnded.signal()
      }
      ender.start()
      session.run { _ in }
      return session.counts
    }
    let owned = counts { OwnedEngine(root: $0, workers: 1) }
    #expect(owned.submitted > 3)
    #expect(owned.finished == 2)
    #expect(owned.underWayAtEnd == 1)
    #expect(owned.startedAfterEnd == 0)
    #expect(owned.cancelled == owned.submitted - 3)
    // On GCD the others follow, and are not excused.
    let dispatch = counts { DispatchEngine(root: $0, workers: 1) }
    #expect(dispatch.finished == 2)
    #expect(dispatch.underWayAtEnd == 1)
    #expect(dispatch.startedAfterEnd == dispatch.submitted - 3)
    #expect(dispatch.startedAfterEnd > 30)
    #expect(dispatch.cancelled == 0)
  }

  @Test func withEveryPlaceAtWorkNoLateBodyPassesForUnderWay() {
    let meter = JobMeter(places: 2)
    meter.submit(5)
    for _ in 0..<2 { #expect(!meter.begin()) }
    #expect(meter.end {})
    for _ in 0..<2 {
      meter.returned(late: false)
      #expect(meter.begin())
    }
    #expect(meter.counts.underWayAtEnd == 0)
    #expect(meter.counts.startedAfterEnd == 2)
    #expect(meter.counts.cancelled == 1)
  }

  @Test func theOwnersEndInTheMidstOfAComparison() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    // Minutes of comparing.
    for name in ["a", "b", "c"] { try directory.writeSparse(name, size: 1 << 40) }
    let comparison = DispatchSemaphore(value: 0)
    let end = DispatchSemaphore(value: 0)
    // After the listing and the fingerprints of all three comes the comparison.
    let whenBegun: @Sendable (Int) -> Void = { begun in
      guard begun == 3 else { return }
      comparison.signal()
      end.wait()
    }
    let session = Self.session(directory, { OwnedEngine(root: $0, workers: 1) }, didBegin: whenBegun)
    let ender = Thread {
      comparison.wait()
      session.end()
      end.signal()
    }
    ender.start()
    session.run { _ in }
    let counts = session.counts
    #expect(counts.submitted == 4)
    #expect(counts.finished == 2)
    // The summary, which waits for the comparison, never began.
    #expect(counts.pendingAtEnd == 1)
    #expect(counts.underWayAtEnd == 0)
    #expect(counts.cancelled == 1)
    #expect(counts.startedAfterEnd == 0)
    let result = session.result
    #expect(result.endedEarly)
    #expect(result.tally.files == 3)
    #expect(result.groups.isEmpty)
  }

  @Test func theBudgetEndsTheOwnersAtWork() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    // Minutes of comparing. Whether the end comes then or sooner is the machine's affair, and nothing here depends on it.
    for name in ["a", "b", "c"] { try directory.writeSparse(name, size: 1 << 40) }
    let outcome = try await ToolBinary.run(["scan", "--budget", "100ms", "--jobs", "1"], in: directory)
    #expect(outcome.status == 3)
    #expect(outcome.output.contains("the budget of 0.10 s is used up: the owners at work ended"))
    #expect(outcome.output.contains(" 0 started after the end"))
    #expect(outcome.output.contains("0 groups of duplicates"))
    let answer = try await scan(["--budget", "100ms", "--jobs", "1"], in: directory, status: 3)
    #expect(answer.run.endedBy == "the budget of 0.10 s is used up")
    #expect(answer.run.jobs.startedAfterEnd == 0)
    #expect(answer.groups.isEmpty)
  }

  @Test func interruptingPrintsWhatWasFound() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    for name in ["a", "b", "c"] { try directory.writeSparse(name, size: 1 << 40) }
    for name in ["small/a", "small/b"] { try directory.write(name, "same") }
    // Interrupted when the second stage has been announced, in the midst of comparing.
    let line = """
      mkfifo ../$$.pipe; "$OWNEDOPS" scan 2>../$$.pipe & tool=$!
      while read -r stage; do case "$stage" in *compared*) kill -INT $tool;; esac; done <../$$.pipe
      wait $tool; status=$?; rm ../$$.pipe; exit $status
      """
    let outcome = try await ToolBinary.shell(line, in: directory)
    #expect(outcome.status == 130)
    #expect(outcome.output.contains("interrupted: the owners at work ended"))
    #expect(outcome.output.contains(" 0 started after the end"))
  }

  // MARK: Harness

  private struct Harness<Engine: ScanEngine>: Sendable {
    let scan: ScanSession<Engine>
    let roots: [DirectoryNode]

    func run(_ announce: (String) -> Void) { scan.run(roots: roots, announce: announce) }
    func end() { scan.end() }
    var counts: JobCounts { scan.meter.counts }
    var result: ScanResult { scan.result(roots: roots, engineName: "", seconds: 0) }
  }

  private static func session<Engine: ScanEngine>(
    _ directory: TemporaryDirectory, _ make: (OwnerLifetime) -> Engine, recorder: JobRecorder? = nil,
    didBegin: (@Sendable (Int) -> Void)? = nil
  ) -> Harness<Engine> {
    let lifetime = OwnerLifetime(name: "test")
    let root = DirectoryNode(root: Array(directory.path.utf8), lifetime: lifetime)
    return Harness(scan: ScanSession(make(lifetime), ScanOptions(), recorder: recorder, didBegin: didBegin), roots: [root])
  }
}

/// Another engine, with a gate between the decision to start a job and its body.
private final class GatedEngine<Base: ScanEngine>: ScanEngine {
  private let base: Base
  private let gate: @Sendable () -> Void

  init(_ base: Base, gate: @escaping @Sendable () -> Void) {
    self.base = base
    self.gate = gate
  }

  var workers: Int { base.workers }

  func makeJob(owner: DirectoryNode, priority: Operation.QueuePriority, _ body: @escaping @Sendable () -> Void) -> Base.Job {
    base.makeJob(owner: owner, priority: priority) { [gate] in
      gate()
      body()
    }
  }

  func add(dependency: Base.Job, to job: Base.Job) { base.add(dependency: dependency, to: job) }
  func submit(_ jobs: [Base.Job]) { base.submit(jobs) }
  func waitUntilFinished() { base.waitUntilFinished() }
  func end() { base.end() }
}
