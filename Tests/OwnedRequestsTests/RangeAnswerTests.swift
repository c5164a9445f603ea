import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

/// Answers 206 and 416, those of servers included that are careless with them.
@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct RangeAnswerTests {
  private let server = LoopbackServer.shared!
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  private var target: URL { directory.target }
  private var names: [String] { directory.names }

  private func download(_ path: String) async throws -> Response<URL> {
    try await server.client().download(Request(.get, path), to: target, lifetime: .process).value
  }

  /// Leaves 20,000 bytes of the first version, of 50,000.
  private func leavePart(_ path: String) async throws {
    let error = await failure { _ = try await download(path) }
    guard case .transport? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(try Data(contentsOf: target.appendingPathExtension("part")) == content("1", 20000))
  }

  // MARK: A part that nobody asked for

  /// With a tag or without: then nothing but the range tells.
  @Test(
    arguments: [(0, "bytes 0-24999/50000"), (10000, "bytes 10000-49999/50000"), (0, "bytes 0-49999/50000"), (10000, "")], [true, false])
  func aPartThatWasNotAskedForIsNoDownload(part: (start: Int, range: String), hasTag: Bool) async throws {
    try Data("former".utf8).write(to: target)
    let id = "unasked-\(part.start)-\(part.range.filter(\.isNumber))-\(hasTag)"
    var values: [String: ParameterValue] = [
      "id": .string(id), "length": 50000, "start": .integer(part.start), "unasked": .string(part.range),
    ]
    if hasTag { values["etag"] = "strong" }
    var request = Request(.get, "bytes", parameters: .form(values))
    request.retry = .exponential(attempts: 3, base: .milliseconds(1))
    let error = await failure { _ = try await server.client().download(request, to: target, lifetime: .process).value }
    guard case .unexpectedContent(let explanation)? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(explanation.contains("file.bin"))
    #expect(try Data(contentsOf: target) == Data("former".utf8))
    #expect(names == ["file.bin"])
    // The server would answer the same again.
    #expect(try await server.tell(.count, of: id) == 1)
  }

  @Test func aPartIsAnAnswerThatSaysSoAndIsNotCached() async throws {
    let client = RequestClient(baseURL: server.base, cache: try ResponseCache(directory: nil, memoryLimit: 1_000_000, diskLimit: 0))
    let range = "bytes 10-99/100"
    var request = Request(
      .get, "bytes", parameters: .form(["id": "unasked-answer", "length": 100, "etag": "strong", "start": 10, "unasked": .string(range)]))
    request.cache = .forTime(.seconds(600))
    for _ in 0..<2 {
      let response = try await client.response(to: request, lifetime: .process, decoding: .data)
      #expect(response.status == 206 && response.headers["Content-Range"] == range && response.source == .network)
      #expect(response.value == content("1", 100).dropFirst(10))
    }
    request.acceptedStatus = 200..<206
    guard case .status(206, _)? = await failure({ _ = try await client.response(to: request, lifetime: .process, decoding: .data) }) else {
      Issue.record("taken")
      return
    }
  }

  // MARK: A part of something else

  @Test(arguments: [
    "bytes?id=glue-tag&length=50000&etag=strong&cuts=1&after=20000&changes=1&careless=yes",  // another tag
    "bytes?id=glue-length&length=50000&later=60000&etag=strong&cuts=1&after=20000&changes=1&careless=yes&untagged=yes",  // another length
  ])
  func aPartOfOtherContentIsNotGluedToWhatIsThere(path: String) async throws {
    try await leavePart(path)
    let response = try await download(path)
    #expect(response.status == 200 && response.attempts == 2 && response.headers["X-Range"] == "none")
    #expect(try Data(contentsOf: target) == content("2", path.contains("later") ? 60000 : 50000))
    #expect(names == ["file.bin"])
  }

  // MARK: Refused ranges

  @Test(arguments: [
    "bytes?id=refused-whole&length=50000&etag=strong&cuts=1&after=20000",
    "bytes?id=refused-whole-untagged&length=50000&etag=strong&cuts=1&after=20000&untagged=yes",
  ])
  func aRefusedRangeOfWhatIsWholeIsTheEnd(path: String) async throws {
    try await leavePart(path)
    try content("1", 50000).write(to: target.appendingPathExtension("part"))
    let response = try await download(path)
    #expect(response.status == 416 && response.attempts == 1)
    #expect(try Data(contentsOf: target) == content("1", 50000))
    #expect(names == ["file.bin"])
  }

  @Test(arguments: [
    // The range is in order, and refused all the same.
    "bytes?id=refused-part&length=50000&etag=strong&cuts=1&after=20000&refused=2",
    "bytes?id=refused-part-untold&length=50000&etag=strong&cuts=1&after=20000&refused=2&untold=yes",
    // The content has become shorter than the part; or as short, and another.
    "bytes?id=refused-shorter&length=50000&later=10000&etag=strong&cuts=1&after=20000&changes=1&careless=yes",
    "bytes?id=refused-same&length=50000&later=20000&etag=strong&cuts=1&after=20000&changes=1&careless=yes",
    "bytes?id=refused-untagged&length=50000&later=10000&etag=strong&cuts=1&after=20000&changes=1&careless=yes&untagged=yes",
  ])
  func aRefusedRangeOfWhatIsNotWholeStartsOver(path: String) async throws {
    try await leavePart(path)
    let response = try await download(path)
    #expect(response.status == 200 && response.attempts == 2 && response.headers["X-Range"] == "none")
    let length = path.split(separator: "&").first { $0.hasPrefix("later=") }.flatMap { Int($0.dropFirst(6)) }
    #expect(try Data(contentsOf: target) == length.map { content("2", $0) } ?? content("1", 50000))
    #expect(names == ["file.bin"])
  }

  @Test func aRefusalWhereNoRangeWasAskedForIsAnError() async throws {
    var request = Request(.get, "status?id=refused-nothing&status=416")
    request.retry = .exponential(attempts: 3, base: .milliseconds(1))
    let error = await failure { _ = try await server.client().download(request, to: target, lifetime: .process).value }
    guard case .status(416, _)? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(names.isEmpty)
    #expect(try await server.tell(.count, of: "refused-nothing") == 1)
  }
}
