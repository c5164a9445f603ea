import Foundation
import OwnedOperations
import Testing

@testable import OwnedOpsTool

/// What scripts give to `scan` and get from it.
@Suite(.timeLimit(.minutes(1)))
struct ScanOutputTests {
  private func makeTree() throws -> TemporaryDirectory {
    let directory = try TemporaryDirectory()
    for name in ["a/one", "b/two words", "c"] { try directory.write(name, "the same") }
    for name in ["d\nbroken", "e\\"] { try directory.write(name, "same") }
    try directory.write("f", "different")
    return directory
  }

  @Test func plainOutputIsPathsAndAnEmptyLineAfterEachGroup() async throws {
    let directory = try makeTree()
    defer { directory.remove() }
    let plain = try await ToolBinary.run(["scan", "--plain", "--quiet"], in: directory)
    #expect(plain.status == 0)
    #expect(plain.output == "./a/one\n./b/two words\n./c\n\n./d\nbroken\n./e\\\n\n")
    #expect(plain.errors == "")
    let top = try await ToolBinary.run(["scan", "--plain", "-q", "--top", "1"], in: directory)
    #expect(top.output == "./a/one\n./b/two words\n./c\n\n")
    try directory.write("empty/x", "")
    try directory.write("empty/y", "")
    let empty = try await ToolBinary.run(["scan", "-q", "--plain", "--empty", "--min-size", "100"], in: directory)
    #expect(empty.output == "./empty/x\n./empty/y\n\n")
  }

  @Test func withNullEveryNameIsToldFromTheNext() async throws {
    let directory = try makeTree()
    defer { directory.remove() }
    let outcome = try await ToolBinary.run(["scan", "-0", "-q"], in: directory)
    #expect(outcome.output == "./a/one\0./b/two words\0./c\0\0./d\nbroken\0./e\\\0\0")
    // As other programs read them.
    let counted = try await ToolBinary.shell(
      #""$OWNEDOPS" scan -0q | xargs -0 sh -c 'for f; do [ -z "$f" ] || [ -f "$f" ] || echo no; done; echo $#' sh"#, in: directory)
    #expect(counted.output == "7\n")
  }

  @Test func theExampleForScriptsCanBePasted() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let example = try #require(ScanOptions.syntax.examples.first { $0.contains("-print0") })
    #expect(try Documentation.page("../README.md").contains("\n\(example)\n"))
    for name in ["one.jpg", "and two.jpg", "third.jpg"] {
      try directory.write("pictures/" + name, String(repeating: name == "third.jpg" ? "x" : "y", count: 20_000))
    }
    for name in ["f.jpg", "g.jpg"] { try directory.write("pictures/" + name, String(repeating: "z", count: 30_000)) }
    #expect(symlink(ToolBinary.url.path, directory.path + "/ownedops") == 0)
    let outcome = try await ToolBinary.shell("PATH=\"$PWD:$PATH\"; cd pictures; \(example)", in: directory)
    #expect(outcome.status == 0 && !outcome.errors.contains("ls: "))
    #expect(outcome.output.split(separator: "\n").count == 4)
  }

  @Test func pathsAreReadFromStandardInput() async throws {
    let directory = try makeTree()
    defer { directory.remove() }
    let lines = try await ToolBinary.run(["scan", "-", "--plain", "-q"], in: directory, input: "a/one\nb\nc\n\nc\n./c\n")
    #expect(lines.status == 0)
    #expect(lines.output == "./c\na/one\nb/two words\n\n", "files and directories; a file that is given twice is one")
    let null = try await ToolBinary.run(["scan", "-0", "-q", "-"], in: directory, input: "./d\nbroken\0./e\\\0f\0")
    #expect(null.output == "./d\nbroken\0./e\\\0\0")
    let json = try await ToolBinary.run(["scan", "-0", "--json", "-"], in: directory, input: "./d\nbroken\0./e\\\0")
    #expect(json.output.contains(#""path" : "./d\nbroken""#))
    // What has gone since the list was made is told of; a name on the command line that isn't there is a mistake.
    let gone = try await ToolBinary.run(["scan", "-", "--plain"], in: directory, input: "a/one\nc\nnowhere\n")
    #expect(gone.output == "a/one\nc\n\n")
    #expect(gone.status == 0)
    #expect(try await ToolBinary.run(["scan", "-"], in: directory, input: "nowhere\n").output.contains("1 entry vanished meanwhile"))
    #expect(try await ToolBinary.run(["scan", "nowhere"], in: directory).status == 2)
    let mistaken = try await ToolBinary.run(["scan", "-"], in: directory, input: "a/one\0c\0")
    #expect(mistaken.status == 2 && mistaken.errors.contains("end with NUL; give --null (-0), too"))
    let nothing = try await ToolBinary.run(["scan", "-", "--plain"], in: directory, input: "")
    #expect(nothing.status == 0 && nothing.output == "")
    let compared = try await ToolBinary.run(["scan", "-", "--compare"], in: directory, input: "a\n")
    #expect(compared.status == 2 && compared.errors.contains("give paths as arguments, not -"))
    // Found in a directory and given by name: one file.
    let both = try await ToolBinary.run(["scan", "--plain", "-q", "./a/one", ".", "/dev/null"], in: directory)
    #expect(both.output == "./a/one\n./b/two words\n./c\n\n./d\nbroken\n./e\\\n\n")
  }

  @Test func sizesHaveUnitsAndLimitWhatIsCompared() async throws {
    let sizes: [(String, Int?)] = [
      ("0", 0), ("512", 512), ("10k", 10_000), ("10K", 10_000), ("10kB", 10_000), ("1.5M", 1_500_000), ("64Ki", 65_536), ("64KiB", 65_536),
      ("2G", 2_000_000_000), ("1T", 1_000_000_000_000), ("9223372036854775807", .max), ("512B", 512), ("", nil), ("k", nil), ("-1", nil),
      ("1.5", nil), ("10 k", nil), ("10x", nil), ("1e3", nil), ("9e30T", nil), ("9999999999T", nil), ("٣", nil),
    ]
    for (text, size) in sizes { #expect(ByteCount.parse(text) == size, "\(text)") }
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    for (name, size) in [("a", 999), ("b", 1000), ("c", 2000), ("d", 2001)] {
      for copy in 1...2 { try directory.write("\(name)\(copy)", String(repeating: "x", count: size)) }
    }
    func found(_ arguments: String...) async throws -> String {
      try await ToolBinary.run(["scan", "--plain", "-q"] + arguments, in: directory).output
    }
    #expect(try await found("--min-size", "1k", "--max-size", "2k") == "./c1\n./c2\n\n./b1\n./b2\n\n")
    #expect(try await found("--max-size=999") == "./a1\n./a2\n\n")
    for (arguments, message) in [
      (["--min-size", "ten"], "--min-size: \"ten\" is not a size; write"), (["--max-size", "1x"], "--max-size: \"1x\" is not a size"),
      (["--min-size", "2k", "--max-size", "1k"], "--max-size is less than --min-size"),
      (["--json", "--plain"], "--json and --plain are two kinds of output"), (["--compare", "-0"], "--compare prints a table"),
    ] {
      let outcome = try await ToolBinary.run(["scan"] + arguments, in: directory)
      #expect(outcome.status == 2)
      #expect(outcome.errors.contains(message), "\(outcome.errors)")
    }
  }

  @Test func everyKeyOfTheJSONIsDocumented() async throws {
    let directory = try makeTree()
    defer { directory.remove() }
    try directory.write("z/empty", "")
    let outcome = try await ToolBinary.run(["scan", "--json", "--empty", "--budget", "10m"], in: directory)
    let document = try JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [String: Any]
    #expect(document?["version"] as? Int == 1)
    var keys: Set<String> = []
    func collect(_ value: Any) {
      if let object = value as? [String: Any] {
        keys.formUnion(object.keys)
        object.values.forEach(collect)
      }
      (value as? [Any])?.forEach(collect)
    }
    collect(document ?? [:])
    let page = try Documentation.page("JSON.md")
    for key in keys { #expect(page.contains("`\(key)`"), "\(key)") }
    #expect(keys.count > 30)
  }

  // MARK: Large files

  /// Equal but for one byte each, at the places given.
  private func makeLargeFiles(_ size: Int, _ differences: [String: Int], in directory: TemporaryDirectory) throws {
    for (name, place) in differences {
      try directory.writeSparse(name, size: size)
      guard place >= 0 else { continue }
      let descriptor = open(directory.path + "/" + name, O_WRONLY | O_CLOEXEC)
      #expect(pwrite(descriptor, "x", 1, off_t(place)) == 1)
      close(descriptor)
    }
  }

  @Test func partsOfLargeFilesAreComparedAtTheSameTime() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try makeLargeFiles(PartedConfirmation.smallest, ["a": -1, "b": -1, "c": -1, "d": -1], in: directory)
    // The third and the fourth job, after the listing and the fingerprints, go on when both have begun.
    let met = DispatchSemaphore(value: 0)
    let isMet = Guarded(true)
    let whenBegun: @Sendable (Int) -> Void = { begun in
      if begun == 4 { met.signal() }
      if begun == 3 {
        let result = met.wait(timeout: .now() + 30)
        isMet.withLock { $0 = result == .success }
      }
    }
    let lifetime = OwnerLifetime(name: "test")
    let root = DirectoryNode(root: Array(directory.path.utf8), lifetime: lifetime)
    let session = ScanSession(OwnedEngine(root: lifetime, workers: 2), ScanOptions(), recorder: nil, didBegin: whenBegun)
    session.run(roots: [root]) { _ in }
    #expect(isMet.withLock { $0 })
    // Two parts.
    #expect(session.meter.counts.submitted == 6)
    let result = session.result(roots: [root], engineName: "", seconds: 0)
    #expect(result.groups.map { $0.files.map { String(decoding: $0.name, as: UTF8.self) } } == [["a", "b", "c", "d"]])
    // Each byte once, apart from heads.
    #expect(result.bytesRead == 4 * (PartedConfirmation.smallest + CandidateReader.headLength))
  }

  @Test func largeFilesThatDifferAnywhereAreToldApart() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let size = PartedConfirmation.smallest + 100_001
    try makeLargeFiles(
      size, ["a": -1, "b": -1, "last": size - 1, "last2": size - 1, "middle": size / 2, "first": 0, "second": CandidateReader.headLength],
      in: directory)
    for workers in [1, 2, 3] {
      let lifetime = OwnerLifetime(name: "test")
      let root = DirectoryNode(root: Array(directory.path.utf8), lifetime: lifetime)
      let session = ScanSession(OwnedEngine(root: lifetime, workers: workers), ScanOptions(), recorder: nil)
      session.run(roots: [root]) { _ in }
      let result = session.result(roots: [root], engineName: "", seconds: 0)
      let names = result.groups.map { $0.files.map { String(decoding: $0.name, as: UTF8.self) } }
      #expect(Set(names) == [["a", "b"], ["last", "last2"]], "\(workers)")
    }
  }

  @Test func aLargeFileThatChangesIsToldOfOnceAndIsInNoGroup() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try makeLargeFiles(PartedConfirmation.smallest, ["a": -1, "b": -1, "c": -1], in: directory)
    let whenBegun: @Sendable (Int) -> Void = { begun in
      // After the fingerprints, before the parts.
      if begun == 3 { _ = truncate(directory.path + "/b", 100) }
    }
    let lifetime = OwnerLifetime(name: "test")
    let root = DirectoryNode(root: Array(directory.path.utf8), lifetime: lifetime)
    // One after the other, but made for two.
    let engine = OneAtATime(OwnedEngine(root: lifetime, workers: 1), workers: 2)
    let session = ScanSession(engine, ScanOptions(), recorder: nil, didBegin: whenBegun)
    session.run(roots: [root]) { _ in }
    let result = session.result(roots: [root], engineName: "", seconds: 0)
    #expect(result.groups.map { $0.files.map { String(decoding: $0.name, as: UTF8.self) } } == [["a", "c"]])
    #expect(result.tally.changed == 1)
  }

  @Test func manyFilesThatDifferLateAreDividedByTheirHashes() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    // Ten classes of ten, among them more than are read side by side.
    for number in 0..<100 {
      var data = Data(repeating: 7, count: 3 * CandidateReader.pieceLength)
      data[data.count - 1] = UInt8(number % 10)
      try directory.write("f\(number)", data)
    }
    let lifetime = OwnerLifetime(name: "test")
    let root = DirectoryNode(root: Array(directory.path.utf8), lifetime: lifetime)
    let session = ScanSession(OwnedEngine(root: lifetime, workers: 2), ScanOptions(), recorder: nil)
    session.run(roots: [root]) { _ in }
    let result = session.result(roots: [root], engineName: "", seconds: 0)
    #expect(result.groups.count == 10)
    for group in result.groups {
      let numbers = group.files.compactMap { Int(String(decoding: $0.name.dropFirst(), as: UTF8.self)) }
      #expect(numbers.count == 10 && Set(numbers.map { $0 % 10 }).count == 1)
    }
  }
}

/// An engine that says it has more workers than it has.
private final class OneAtATime: ScanEngine {
  private let base: OwnedEngine
  let workers: Int

  init(_ base: OwnedEngine, workers: Int) {
    self.base = base
    self.workers = workers
  }

  func makeJob(owner: DirectoryNode, priority: Operation.QueuePriority, _ body: @escaping @Sendable () -> Void) -> OwnedOperation {
    base.makeJob(owner: owner, priority: priority, body)
  }

  func add(dependency: OwnedOperation, to job: OwnedOperation) { base.add(dependency: dependency, to: job) }
  func submit(_ jobs: [OwnedOperation]) { base.submit(jobs) }
  func waitUntilFinished() { base.waitUntilFinished() }
  func end() { base.end() }
}

/// Pages of the repository.
enum Documentation {
  static func page(_ name: String) throws -> String {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    return try String(contentsOf: root.appendingPathComponent("Documentation").appendingPathComponent(name), encoding: .utf8)
  }
}
