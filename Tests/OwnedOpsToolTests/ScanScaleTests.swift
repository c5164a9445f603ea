import Foundation
import Testing

@testable import OwnedOpsTool

/// A tree as large as real ones.
@Suite(.timeLimit(.minutes(10)))
struct ScanScaleTests {
  private struct Answer: Decodable {
    struct Group: Decodable, Equatable {
      struct File: Decodable, Equatable {
        let path: String
      }
      let size: Int
      let files: [File]
    }
    struct Run: Decodable {
      let seconds: Double
      let peakMemory: Int
    }
    struct Root: Decodable {
      let duplicates: Int
      let duplicateBytes: Int
    }
    let groups: [Group]
    let counts: Census.Tally
    let roots: [Root]
    let run: Run
  }

  /// Files of 4 to 43 bytes that hold their number, but every tenth, which holds the number of the one before.
  private func makeTree(of count: Int, in directory: TemporaryDirectory) throws {
    let perDirectory = 250
    for first in stride(from: 0, to: count, by: perDirectory) {
      let path = "\(directory.path)/d\(first / perDirectory)"
      try #require(mkdir(path, 0o700) == 0)
      let parent = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
      try #require(parent >= 0)
      defer { close(parent) }
      var content = [UInt8](repeating: 0, count: 43)
      for number in first..<first + perDirectory {
        let file = openat(parent, "f\(number)", O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        try #require(file >= 0)
        let written = number - (isDuplicate(number) ? 1 : 0)
        withUnsafeBytes(of: UInt32(written)) { for (place, byte) in $0.enumerated() { content[place] = byte } }
        try #require(write(file, content, size(written)) == size(written))
        close(file)
      }
    }
  }

  private func isDuplicate(_ number: Int) -> Bool { number % 10 == 9 }
  private func size(_ number: Int) -> Int { 4 + number / 2 % 40 }

  @Test func aHundredThousandFilesAreTheSameToEveryEngineAndFitInLittleMemory() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let count = Sanitizer.isActive ? 10_000 : 100_000
    try makeTree(of: count, in: directory)
    let duplicates = (0..<count).filter(isDuplicate)

    var first: Answer?
    for engine in ScanOptions.EngineName.allCases {
      let outcome = try await ToolBinary.run(["scan", "--json", "--quiet", "--engine", engine.rawValue], in: directory)
      #expect(outcome.status == 0, "\(engine)")
      let answer = try JSONDecoder().decode(Answer.self, from: Data(outcome.output.utf8))
      print("\(count) files, \(engine): \(Shown.seconds(answer.run.seconds)), \(Shown.bytes(answer.run.peakMemory))")
      #expect(answer.counts.files == count)
      #expect(answer.counts.directories == count / 250 + 1)
      #expect(answer.counts.unreadable + answer.counts.vanished + answer.counts.changed == 0)
      #expect(answer.groups.count == duplicates.count)
      #expect(answer.roots.first?.duplicates == duplicates.count)
      #expect(answer.roots.first?.duplicateBytes == duplicates.reduce(0) { $0 + size($1 - 1) })
      // Not their contents, and not their paths.
      #expect(answer.run.peakMemory < 128 << 20 || Sanitizer.isActive)
      let isSame = first.map { $0.groups == answer.groups && $0.counts == answer.counts } ?? true
      #expect(isSame, "\(engine) differs from the first")
      first = first ?? answer
    }
    let pairs = Set((first?.groups ?? []).map { Set($0.files.map(\.path)) })
    let expected = Set(duplicates.map { Set([$0 - 1, $0].map { "./d\($0 / 250)/f\($0)" }) })
    let isRight = pairs == expected
    #expect(isRight, "the groups are those that were made")
  }

  @Test func aTreeOfTenThousandLevelsIsScannedInTimeThatGrowsWithItsDepth() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let count = Sanitizer.isActive ? 2000 : 10_000
    var descriptor = open(directory.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    for _ in 0..<count {
      try #require(mkdirat(descriptor, "d", 0o700) == 0)
      let next = openat(descriptor, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
      close(descriptor)
      try #require(next >= 0)
      descriptor = next
    }
    for name in ["one", "two"] {
      let file = openat(descriptor, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
      try #require(write(file, "same", 4) == 4)
      close(file)
    }
    close(descriptor)
    // Few descriptors: those that are kept open are closed again. And pictures and patterns, which also look at paths.
    let line = "ulimit -n 128; \"$OWNEDOPS\" scan --json -q --exclude a/b/c --trace t.json"
    let outcome = try await ToolBinary.shell(line, in: directory)
    let time = outcome.processorTime
    print("\(count) levels: \(time) of processors")
    #expect(outcome.status == 0)
    let answer = try JSONDecoder().decode(Answer.self, from: Data(outcome.output.utf8))
    #expect(answer.counts.directories == count + 1)
    #expect(answer.groups.count == 1)
    #expect(answer.counts.unreadable == 0)
    // One second or two; with a cost that grows with the square, minutes.
    #expect(time < .seconds(30))
  }
}
