import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// When a part has a record beside it, and what becomes of one that has none.
@Suite(.serialized) struct DownloadRecordTests {
  private let directory: TemporaryDirectory
  private let address = URL(string: "http://localhost/file")!

  init() throws { directory = try TemporaryDirectory() }

  private var target: URL { directory.target }
  private var names: [String] { directory.names }
  private static let part = "file.bin.part"
  private static let record = "file.bin.part.info"

  private func head(_ status: Int = 200, tag: String? = "\"1\"", length: Int? = nil) -> ResponseHead {
    var headers: HeaderFields = [:]
    headers["ETag"] = tag
    headers["Content-Length"] = length.map(String.init)
    return ResponseHead(status: status, headers: headers, url: address)
  }

  private func begin(_ file: DownloadFile, _ head: ResponseHead) throws {
    #expect(try file.acquire())
    var urlRequest = URLRequest(url: address)
    try file.adapt(&urlRequest)
    #expect(try file.begin(head))
  }

  /// Leaves a part and its record, of content with the tag "1".
  private func leavePart() throws {
    let file = DownloadFile(target, DownloadExpectation())
    try begin(file, head())
    try file.write(Data("former".utf8))
    file.letGo()
    #expect(names == [Self.part, Self.record])
  }

  // MARK: Of others

  /// Whoever may write beside the target says nothing to the server.
  @Test func aValidatorWithALineOfItsOwnIsNotSent() throws {
    try leavePart()
    let record = directory.url.appendingPathComponent(Self.record)
    let text = try String(contentsOf: record, encoding: .utf8)
    #expect(text.contains(#""validator":"\"1\"""#))
    try text.replacingOccurrences(of: #"1\"""#, with: #"1\"\r\nX-Other: 1""#).write(to: record, atomically: false, encoding: .utf8)
    let file = DownloadFile(target, DownloadExpectation())
    #expect(try file.acquire())
    var urlRequest = URLRequest(url: address)
    try file.adapt(&urlRequest)
    #expect(urlRequest.value(forHTTPHeaderField: "If-Range") == nil && urlRequest.value(forHTTPHeaderField: "Range") == nil)
    file.letGo()
  }

  @Test(arguments: [part, record]) func aPipeInTheirPlaceIsNamed(name: String) throws {
    try leavePart()
    let path = directory.url.appendingPathComponent(name).path
    #expect(unlink(path) == 0 && mkfifo(path, 0o644) == 0)
    let file = DownloadFile(target, DownloadExpectation())
    do throws(RequestError) {
      _ = try file.acquire()
      Issue.record("a pipe was opened")
    } catch {
      #expect(error.explanation == "target: \(path) is in the way, and not a regular file")
    }
    file.letGo()
  }

  // MARK: When there is one

  @Test func nothingIsMadeBeforeAnAnswerAndASmallFileHasNoRecord() throws {
    let file = DownloadFile(target, DownloadExpectation())
    #expect(try file.acquire())
    var urlRequest = URLRequest(url: address)
    try file.adapt(&urlRequest)
    #expect(names.isEmpty)
    #expect(try file.begin(head(length: 10)))
    try file.write(Data(count: 10))
    #expect(names == [Self.part])
    try file.end()
    file.letGo()
    #expect(names == ["file.bin"])
  }

  @Test func aPartHasItsRecordAsSoonAsItIsLong() throws {
    let file = DownloadFile(target, DownloadExpectation())
    try begin(file, head())
    try file.write(Data(count: Int(DownloadFile.recordedLength) - 1))
    #expect(names == [Self.part])
    try file.write(Data(count: 1))
    #expect(names == [Self.part, Self.record])
    try file.end()
    file.letGo()
    #expect(names == ["file.bin"])
  }

  @Test func aPartWithNothingToGoOnFromHasNone() throws {
    for tag in [nil, "W/\"1\""] {
      let file = DownloadFile(target, DownloadExpectation())
      try begin(file, head(tag: tag))
      try file.write(Data(count: Int(DownloadFile.recordedLength)))
      file.letGo()
      #expect(names == [Self.part])
    }
  }

  @Test func aWholePartThatCanNotBeMovedIsGoneOnWith() throws {
    let file = DownloadFile(target, DownloadExpectation())
    try begin(file, head(length: 300_000))
    try file.write(Data(count: 300_000))
    try FileManager.default.createDirectory(at: target, withIntermediateDirectories: false)
    #expect(throws: RequestError.self) { try file.end() }
    file.letGo()
    #expect(names == ["file.bin", Self.part, Self.record])
    try FileManager.default.removeItem(at: target)
    let next = DownloadFile(target, DownloadExpectation())
    #expect(try next.acquire())
    var urlRequest = URLRequest(url: address)
    try next.adapt(&urlRequest)
    #expect(urlRequest.value(forHTTPHeaderField: "Range") == "bytes=300000-")
  }

  // MARK: Other content

  @Test func aFormerRecordIsNeverBesideBytesOfOtherContent() throws {
    try leavePart()
    let file = DownloadFile(target, DownloadExpectation())
    try begin(file, head(tag: "\"2\""))
    #expect(names == [Self.part])
    try file.write(Data("other".utf8))
    #expect(names == [Self.part])
  }

  @Test func norIsOneThatHasLostItsPart() throws {
    try leavePart()
    try FileManager.default.removeItem(at: directory.url.appendingPathComponent(Self.part))
    let file = DownloadFile(target, DownloadExpectation())
    try begin(file, head(tag: "\"2\""))
    try file.write(Data("other".utf8))
    #expect(names == [Self.part])
    file.letGo()
    let next = DownloadFile(target, DownloadExpectation())
    #expect(try next.acquire())
    var urlRequest = URLRequest(url: address)
    try next.adapt(&urlRequest)
    #expect(urlRequest.value(forHTTPHeaderField: "If-Range") == "\"2\"")
  }

  // MARK: Kills and ends

  /// Downloads in a process of its own, which is killed when as many bytes are there.
  private func downloadAndBeKilled(_ path: String, at length: Int) async throws {
    let server = try #require(LoopbackServer.shared)
    let address = server.base.appendingPathComponent("bytes").absoluteString + path
    await #expect(processExitsWith: .signal(SIGKILL)) {
      [address = address as String, target = target.path as String, length = length as Int] in
      let client = RequestClient()
      client.download(Request(.get, address), to: URL(fileURLWithPath: target), lifetime: .process)
      _ = try await eventually {
        let attributes = try? FileManager.default.attributesOfItem(atPath: target + ".part")
        if attributes?[.size] as? Int == length { kill(getpid(), SIGKILL) }
        return false
      }
    }
  }

  private func download(_ path: String) async throws -> Response<URL> {
    let server = try #require(LoopbackServer.shared)
    return try await server.client().download(Request(.get, "bytes" + path), to: target, lifetime: .process).value
  }

  @Test(.enabled(if: LoopbackServer.isThere)) func aKillBeforeThereIsARecordStartsOver() async throws {
    let path = "?id=killed-early&length=500000&etag=strong&cuts=1&after=20000&then=hang&changes=1"
    try await downloadAndBeKilled(path, at: 20000)
    #expect(names == [Self.part])
    let response = try await download(path)
    #expect(response.status == 200 && response.headers["X-Range"] == "none")
    #expect(try Data(contentsOf: target) == content("2", 500_000))
    #expect(names == ["file.bin"])
  }

  @Test(.enabled(if: LoopbackServer.isThere)) func aKillAfterThereIsARecordLosesNothing() async throws {
    let path = "?id=killed-late&length=500000&etag=strong&cuts=1&after=300000&then=hang"
    try await downloadAndBeKilled(path, at: 300_000)
    #expect(names == [Self.part, Self.record])
    let response = try await download(path)
    #expect(response.status == 206 && response.headers["X-Range"] == "bytes=300000-")
    #expect(try Data(contentsOf: target) == content("1", 500_000))
    #expect(names == ["file.bin"])
  }

  /// A disk that stalls once it is told to.
  private final class Disk: Sendable {
    private let gate = Gate()
    private let state = Guarded((isStalled: false, waiting: 0))

    func stall() { state.withLock { $0.isStalled = true } }
    func goOn() { gate.open() }
    var waiting: Int { state.withLock { $0.waiting } }

    @Sendable func write() {
      let isStalled = state.withLock { state in
        if state.isStalled { state.waiting += 1 }
        return state.isStalled
      }
      if isStalled { gate.wait() }
    }
  }

  private static func operation(_ address: URL, to target: URL, _ lifetime: OwnerLifetime, willWrite: @escaping @Sendable () -> Void)
    -> RequestOperation<URL>
  {
    let client = RequestClient(baseURL: address)
    let operation = RequestOperation(
      Request(.get, address.absoluteString), client: client, lifetime: lifetime, decoding: ResponseDecoder { _, _ in target },
      download: DownloadFile(target, DownloadExpectation(), willWrite: willWrite))
    client.startAtOnce(operation)
    return operation
  }

  private func hanging(_ id: String) throws -> URL {
    let server = try #require(LoopbackServer.shared)
    return try #require(URL(string: "\(server.base)/bytes?id=\(id)&length=50000&etag=strong&cuts=1&after=20000&then=hang"))
  }

  @Test(.enabled(if: LoopbackServer.isThere), arguments: [true, false]) func anEndWaitsForNoRecord(isOfOwner: Bool) async throws {
    let disk = Disk()
    defer { disk.goOn() }
    let lifetime = OwnerLifetime()
    let operation = Self.operation(try hanging("record-end-\(isOfOwner)"), to: target, lifetime, willWrite: disk.write)
    for await progress in operation.progress where progress.bytesReceived == 20000 { break }
    disk.stall()
    // An owner's requests are told of its end one after the other.
    if isOfOwner { lifetime.end() } else { #expect(try await returns { operation.cancel() }) }
    #expect(try await soon { operation.isFinished })
    #expect(try await eventually { disk.waiting == 1 })
    // The place is its own until the record is there.
    #expect(try !DownloadFile(target, DownloadExpectation()).acquire())
    disk.goOn()
    let target = target
    #expect(try await eventually { (try? DownloadFile(target, DownloadExpectation()).acquire()) == true })
    #expect(names == [Self.part, Self.record])
  }

  @Test(.enabled(if: LoopbackServer.isThere)) func aProcessThatExitsAfterAnOwnersEndLeavesWhatCanBeGoneOnWith() async throws {
    let address = try hanging("record-exit")
    await #expect(processExitsWith: .success) { [address = address as URL, target = target as URL] in
      // On a machine that does much else, the disk may take longer than an exit waits.
      DownloadClosings.patience.withLock { $0 = .seconds(60) }
      let lifetime = OwnerLifetime()
      let isOver = Guarded(false)
      let operation = Self.operation(address, to: target, lifetime) {
        // A disk takes its time: longer than an exit.
        if isOver.withLock({ $0 }) { usleep(200_000) }
      }
      for await progress in operation.progress where progress.bytesReceived == 20000 { break }
      isOver.withLock { $0 = true }
      lifetime.end()
      _ = await failure { _ = try await operation.value }
      exit(0)
    }
    #expect(names == [Self.part, Self.record])
  }
}
