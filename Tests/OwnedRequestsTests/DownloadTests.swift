import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

@Suite struct ContentRangeTests {
  @Test func rangesAreRead() {
    #expect(ContentRange("bytes 5-9/10")?.start == 5 && ContentRange("bytes 5-9/10")?.total == 10)
    #expect(ContentRange("bytes 5-9/*")?.total == nil && ContentRange("bytes 5-9/*")?.start == 5)
    #expect(ContentRange("Bytes */10")?.start == nil && ContentRange("bytes */10")?.total == 10)
    #expect(ContentRange("bytes 5-9/-5") == nil && ContentRange("bytes */-1") == nil)
    for nonsense in [
      nil, "", "bytes", "bytes 5-9", "items 5-9/10", "bytes 9-5/10", "bytes -5/10", "bytes 5-/10", "bytes 5-9/x", "bytes a-b/10",
    ] {
      #expect(ContentRange(nonsense) == nil)
    }
  }
}

@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct DownloadTests {
  private let server = LoopbackServer.shared!
  private let lifetime = OwnerLifetime()
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  private var target: URL { directory.target }
  private var names: [String] { directory.names }

  /// What comes in parts.
  private func head(_ status: Int, _ headers: HeaderFields) throws -> ResponseHead {
    ResponseHead(status: status, headers: headers, url: try #require(URL(string: "http://localhost/file")))
  }

  @Test func aPartIsNotTakenForTheWholeThoughTheFirstAnswerHadNoLength() throws {
    var urlRequest = URLRequest(url: try #require(URL(string: "http://localhost/file")))
    func begin(_ file: DownloadFile, _ head: ResponseHead, _ bytes: Int) throws {
      #expect(try file.acquire())
      try file.adapt(&urlRequest)
      #expect(try file.begin(head))
      try file.write(Data(repeating: 1, count: bytes))
    }
    let first = DownloadFile(target, DownloadExpectation())
    try begin(first, head(200, ["ETag": "\"1\""]), 5)
    first.letGo()
    let second = DownloadFile(target, DownloadExpectation())
    try begin(second, head(206, ["ETag": "\"1\"", "Content-Range": "bytes 5-7/10"]), 3)
    #expect(throws: RequestError.self) { try second.end() }
    second.letGo()
    #expect(names == ["file.bin.part", "file.bin.part.info"])
    let third = DownloadFile(target, DownloadExpectation())
    try begin(third, head(206, ["ETag": "\"1\"", "Content-Range": "bytes 8-9/10"]), 2)
    try third.end()
    third.letGo()
    #expect(try Data(contentsOf: target).count == 10)
  }

  @Test(arguments: ["file.bin.part", "file.bin.part.info"])
  func aLinkInThePlaceOfAPartIsRefused(name: String) async throws {
    let victim = directory.url.appendingPathComponent("victim")
    try Data("former".utf8).write(to: victim)
    let link = directory.url.appendingPathComponent(name)
    try FileManager.default.createSymbolicLink(at: link, withDestinationURL: victim)
    let target = target
    let error = await failure {
      _ = try await server.client().download(Request(.get, "bytes?length=10&etag=strong"), to: target, lifetime: lifetime).value
    }
    guard case .fileSystem(let reason as FileFailure)? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(reason.path == link.path && reason.description.contains("symbolic link"))
    #expect(try Data(contentsOf: victim) == Data("former".utf8))
    #expect(names == [name, "victim"])
  }

  @Test func whatIsNotAcceptedDoesNotReplaceTheTarget() async throws {
    try Data("former".utf8).write(to: target)
    for (accepted, status) in [(200..<201, 202), (100..<600, 404)] {
      var request = Request(.get, "status?status=\(status)&body=wait")
      request.acceptedStatus = accepted
      let operation = server.client().download(request, to: target, lifetime: lifetime)
      let error = await failure { _ = try await operation.value }
      guard case .status(status, _)? = error else {
        Issue.record("\(String(describing: error))")
        return
      }
      #expect(try Data(contentsOf: target) == Data("former".utf8))
    }
  }

  private func download(_ path: String, retry: RetryPolicy = .none, _ expectation: DownloadExpectation = DownloadExpectation()) async throws
    -> Response<URL>
  {
    var request = Request(.get, path)
    request.retry = retry
    return try await server.client().download(request, to: target, lifetime: lifetime, expecting: expectation).value
  }

  @Test func aDownloadIsMovedIntoPlaceWhole() async throws {
    try Data("former".utf8).write(to: target)
    // So much has a record, and is in fewer pieces than may wait: on a machine that does much else, the disk is not taken to stall.
    let whole = content("1", 300_000)
    let digest = SHA256.hexadecimal(SHA256.digest(of: whole))
    let response = try await download(
      "bytes?id=whole&length=300000&etag=strong", DownloadExpectation(length: 300_000, sha256: digest.uppercased()))
    #expect(response.value == target && response.status == 200 && response.attempts == 1)
    #expect(response.headers["X-Encoding"] == "identity" && response.headers["X-Range"] == "none")
    #expect(try Data(contentsOf: target) == whole)
    #expect(names == ["file.bin"])
  }

  @Test func anEmptyFileIsAFile() async throws {
    _ = try await download("bytes?id=empty&length=0&etag=strong")
    #expect(try Data(contentsOf: target).isEmpty)
    #expect(names == ["file.bin"])
  }

  @Test func whatIsCutOffGoesOnWithinTheRequest() async throws {
    let digest = SHA256.hexadecimal(SHA256.digest(of: content("1", 500_000)))
    let response = try await download(
      "bytes?id=resume&length=500000&etag=strong&cuts=2&after=200000", retry: .exponential(attempts: 5, base: .milliseconds(1)),
      DownloadExpectation(sha256: digest))
    #expect(response.attempts == 3 && response.status == 206)
    #expect(response.headers["X-Range"]?.hasPrefix("bytes=") == true)
    #expect(try Data(contentsOf: target) == content("1", 500_000))
    #expect(names == ["file.bin"])
  }

  @Test func whatIsCutOffGoesOnWithTheNextDownload() async throws {
    let path = "bytes?id=resume-later&length=500000&etag=strong&cuts=1&after=200000"
    guard case .transport = await failure({ _ = try await download(path) }) else {
      Issue.record("not cut off")
      return
    }
    #expect(names == ["file.bin.part", "file.bin.part.info"])
    let digest = SHA256.hexadecimal(SHA256.digest(of: content("1", 500_000)))
    let response = try await download(path, DownloadExpectation(sha256: digest))
    #expect(response.status == 206 && response.headers["X-Range"] != "bytes=0-")
    #expect(try Data(contentsOf: target) == content("1", 500_000))
    #expect(names == ["file.bin"])
  }

  @Test(arguments: [
    "bytes?id=fresh-changed&length=50000&etag=strong&cuts=1&after=20000&changes=1",  // the content has changed
    "bytes?id=fresh-weak&length=50000&etag=weak&cuts=1&after=20000&changes=1",  // no strong validator
    "bytes?id=fresh-none&length=50000&cuts=1&after=20000&changes=1",  // none at all
    "bytes?id=fresh-ranges&length=50000&etag=strong&cuts=1&after=20000&changes=1&ranges=no",  // the server knows no ranges
  ])
  func whereNothingCanBeGoneOnWithItStartsOver(path: String) async throws {
    let response = try await download(path, retry: .exponential(attempts: 2, base: .milliseconds(1)))
    #expect(response.status == 200 && response.attempts == 2)
    #expect(try Data(contentsOf: target) == content("2", 50000))
    #expect(names == ["file.bin"])
  }

  @Test func anotherPartThanWasAskedForStartsOver() async throws {
    let path = "bytes?id=wrong-range&length=50000&etag=strong&cuts=1&after=20000&range=wrong"
    _ = await failure { _ = try await download(path) }
    let response = try await download(path)
    #expect(response.status == 200 && response.attempts == 2)
    #expect(try Data(contentsOf: target) == content("1", 50000))
  }

  @Test func aPartThatIsWholeIsMovedIntoPlace() async throws {
    let path = "bytes?id=whole-part&length=50000&etag=strong&cuts=1&after=20000"
    _ = await failure { _ = try await download(path) }
    try content("1", 50000).write(to: target.appendingPathExtension("part"))
    let response = try await download(path)
    #expect(response.status == 416)
    #expect(try Data(contentsOf: target) == content("1", 50000))
    #expect(names == ["file.bin"])
  }

  @Test func aPartThatIsTooLongOrOfAnotherAddressStartsOver() async throws {
    let path = "bytes?id=odd-part&length=50000&etag=strong&cuts=1&after=20000"
    _ = await failure { _ = try await download(path) }
    try content("9", 60000).write(to: target.appendingPathExtension("part"))
    #expect(try await download(path).headers["X-Range"] == "none")
    #expect(try Data(contentsOf: target) == content("1", 50000))
    let other = "bytes?id=odd-part-2&length=50000&etag=strong&cuts=1&after=20000"
    _ = await failure { _ = try await download(other) }
    #expect(try await download(other + "&other").headers["X-Range"] == "none")
    try Data("damaged".utf8).write(to: directory.url.appendingPathComponent("file.bin.part.info"))
    try content("9", 100).write(to: target.appendingPathExtension("part"))
    #expect(try await download(other).headers["X-Range"] == "none")
    #expect(try Data(contentsOf: target) == content("1", 50000))
  }

  @Test func whatIsNotExpectedIsNotKept() async throws {
    try Data("former".utf8).write(to: target)
    for expectation in [DownloadExpectation(length: 7), DownloadExpectation(sha256: String(repeating: "0", count: 64))] {
      guard
        case .unexpectedContent(let explanation) = await failure({
          _ = try await download("bytes?id=unexpected&length=5000&etag=strong", expectation)
        })
      else {
        Issue.record("taken")
        continue
      }
      #expect(explanation.contains("file.bin"))
      #expect(try Data(contentsOf: target) == Data("former".utf8))
      #expect(names == ["file.bin"])
    }
  }

  @Test func badInputIsToldAndNothingIsSent() async throws {
    for expectation in [DownloadExpectation(length: -1), DownloadExpectation(sha256: "abc")] {
      let error = await failure { _ = try await download("bytes?id=bad-download&length=5", expectation) }
      #expect(error?.explanation?.contains("expected") == true)
    }
    let client = server.client()
    let request = Request(.get, "bytes?id=bad-download&length=5")
    for place in [directory.url, URL(string: "http://localhost/x")!] {
      let error = await failure { _ = try await client.download(request, to: place, lifetime: lifetime).value }
      #expect(error?.explanation?.contains("target") == true)
    }
    let missing = directory.url.appendingPathComponent("missing/file.bin")
    guard case .fileSystem(let reason) = await failure({ _ = try await client.download(request, to: missing, lifetime: lifetime).value })
    else {
      Issue.record("no error")
      return
    }
    #expect("\(reason)".contains(missing.path))
    #expect(try await server.tell(.count, of: "bad-download") == 0)
  }

  @Test func anErrorOfTheServersIsToldAndNothingIsLeft() async throws {
    guard case .status(404, body: Data("gone".utf8)) = await failure({ _ = try await download("status?status=404&body=gone") }) else {
      Issue.record("no 404")
      return
    }
    #expect(names.isEmpty)
  }

  /// Who has ended a download may have left its files to another thread, and the next one does not look for them without end.
  private func expectLetGo() async throws {
    let target = target
    #expect(try await eventually { (try? DownloadFile(target, DownloadExpectation()).acquire()) == true })
  }

  @Test func theEndOfTheOwnerLeavesAPartToGoOnWith() async throws {
    let path = "bytes?id=end-download&length=50000&etag=strong&cuts=1&after=20000&then=hang"
    let client = server.client()
    var screen: Screen? = Screen()
    let operation = client.download(Request(.get, path), to: target, owner: screen!)
    for await progress in operation.progress where progress.bytesReceived >= 20000 { break }
    screen = nil
    try await server.reaches(.closed, of: "end-download", 1)
    guard case .cancelled(.ownerEnded) = await failure({ _ = try await operation.value }) else {
      Issue.record("\(String(describing: operation.result))")
      return
    }
    try await expectLetGo()
    let response = try await download(path)
    #expect(response.headers["X-Range"] == "bytes=20000-")
    #expect(try Data(contentsOf: target) == content("1", 50000))
  }

  @Test func aSecondDownloadToTheSameFileIsRefused() async throws {
    let path = "bytes?id=second-download&length=50000&etag=strong&cuts=1&after=20000&then=hang"
    let client = server.client()
    let first = client.download(Request(.get, path), to: target, lifetime: lifetime)
    try await server.reaches(.open, of: "second-download", 1)
    let error = await failure { _ = try await download("bytes?id=refused-download&length=5") }
    #expect(error?.explanation?.contains("another download") == true)
    #expect(try await server.tell(.count, of: "refused-download") == 0)
    first.cancel()
    try await expectLetGo()
    #expect(try await download("bytes?id=after-download&length=5").value == target)
  }

  /// A list may have both: one would take the other's part for its own, or have its own content replaced.
  @Test(arguments: [".part", ".part.info"]) func aDownloadToAFileBesideThePartOfAnotherIsRefused(suffix: String) throws {
    let beside = DownloadFile(URL(fileURLWithPath: target.path + suffix), DownloadExpectation())
    let file = DownloadFile(target, DownloadExpectation())
    #expect(try file.acquire())
    #expect(try !beside.acquire())
    file.letGo()
    #expect(try beside.acquire())
    #expect(try !DownloadFile(target, DownloadExpectation()).acquire())
    beside.letGo()
    #expect(names.isEmpty)
  }

  @Test func aDownloadWithoutAByteTimesOutAndOneWithBytesDoesNot() async throws {
    var request = Request(.get, "bytes?id=idle-download&length=50000&etag=strong&cuts=1&after=20000&then=hang")
    request.idleLimit = .milliseconds(300)
    let client = server.client()
    let timers = await HeldTimers()
    let stalled = client.download(request, to: target, lifetime: lifetime)
    // So much comes, and no more.
    for await progress in stalled.progress where progress.bytesReceived == 20000 { break }
    timers.goOn()
    guard case .timedOut = await failure({ _ = try await stalled.value }) else {
      Issue.record("no time-out")
      return
    }
    #expect(names == ["file.bin.part", "file.bin.part.info"])
    // However long the rest takes to come on a machine that does much else.
    request.idleLimit = .seconds(60)
    _ = try await client.download(request, to: target, lifetime: lifetime).value
    #expect(try Data(contentsOf: target) == content("1", 50000))
  }

  @Test func manyDownloadsGoOnSideBySide() async throws {
    let client = server.client()
    let operations = (0..<20).map { number in
      client.download(
        Request(.get, "bytes?id=many-\(number)&length=100000&etag=strong"), to: directory.url.appendingPathComponent("many-\(number)"),
        lifetime: lifetime)
    }
    for operation in operations { #expect(try await Data(contentsOf: operation.value.value) == content("1", 100_000)) }
    #expect(names.count == 20)
  }
}
