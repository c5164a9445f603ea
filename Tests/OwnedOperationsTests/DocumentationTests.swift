import Foundation
import Testing

@testable import OwnedOperations

@Suite struct DocumentationTests {
  private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

  /// The lines of a text that mean something, without their indentation.
  private static func lines(_ text: some StringProtocol) -> [String] {
    text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }
  }

  /// The Swift blocks of a Markdown text.
  private static func swiftBlocks(_ text: String) -> [[String]] {
    text.components(separatedBy: "```swift\n").dropFirst().map { lines($0.components(separatedBy: "\n```")[0]) }
  }

  @Test func everyExampleOfTheReadmeIsCompiled() throws {
    let readme = try String(contentsOf: Self.root.appending(path: "README.md"), encoding: .utf8)
    let compiled = try ["OwnedOperationsTests", "OwnedRequestsTests", "OwnedOperationsTestingTests"].flatMap { target in
      Self.lines(try String(contentsOf: Self.root.appending(path: "Tests/\(target)/ReadmeExamples.swift"), encoding: .utf8))
    }
    let blocks = Self.swiftBlocks(readme)
    #expect(blocks.count >= 9)
    for block in blocks {
      let starts = compiled.indices.filter { compiled[$0...].starts(with: block) || Self.matches(block, compiled[$0...]) }
      #expect(!starts.isEmpty, "not compiled word for word: \(block.joined(separator: "\n"))")
    }
  }

  /// Whether the block's lines follow each other, where the compiled text may have others between them.
  private static func matches(_ block: [String], _ compiled: ArraySlice<String>) -> Bool {
    guard compiled.first == block.first else { return false }
    var rest = compiled.prefix(block.count * 2)[...]
    for line in block {
      guard let place = rest.firstIndex(of: line) else { return false }
      rest = rest[(place + 1)...]
    }
    return true
  }

  @Test func examplesOfTheReadmeRun() async throws {
    ReadmeExamples.owners()
    ReadmeExamples.trees()
    ReadmeExamples.notifications()
    try ReadmeExamples.hooks(session: OwnerLifetime(), upload: OwnerLifetime())
    ReadmeExamples.deinitHooks(connection: Screen())
    ReadmeExamples.anyObject()
    let screen = Screen()
    ReadmeExamples.plainGCD(screen: screen)
    let journal = Journal<String>()
    let lifetime = OwnerLifetime()
    ReadmeExamples.operations(lifetime: lifetime, load: { journal.write("load") }, render: { journal.write("render") })
    #expect(journal.entries == ["load", "render"])
    let operation = ReadmeExamples.queue(screen: screen)
    operation.waitUntilDone()
    #expect(ReadmeExamples.protected(screen: screen) == 30)
    let model = PhotoModel()
    let background = OwnerScopedQueue()
    ReadmeExamples.mainActor(queue: background, model: model)
    await background.finished()
    await model.tap(background)
    await background.finished()
    await OwnerScopedQueue.main.finished()
    #expect(await model.title == "a lake")
    #expect(ReadmeExamples.queueForms(queue: OwnerScopedQueue(), screen: screen) == 0)
    let title = try await ReadmeExamples.concurrency(queue: OwnerScopedQueue(), screen: screen)
    #expect(title == "title")
    ReadmeExamples.observers(queue: OwnerScopedQueue(), screen: screen, saved: Notification.Name("saved"), document: Screen())
    let numbers = AsyncStream<Int> { continuation in
      continuation.yield(1)
      continuation.finish()
    }
    let loaded = try await ReadmeExamples.events(queue: background, screen: screen, operation: operation, numbers: numbers) { "loaded" }
    #expect(loaded == "loaded")
    let count = try await ReadmeExamples.scopes(queue: background)
    #expect(count == 1)
    try await ReadmeExamples.graph(queue: OwnerScopedQueue(), screen: screen)
  }
}

extension OwnedOperation {
  /// `waitUntilFinished`, which is not for asynchronous code, for tests that have a thread to spare.
  func waitUntilDone() { waitUntilFinished() }
}
