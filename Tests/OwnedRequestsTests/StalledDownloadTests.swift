import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// A disk that stalls: whoever writes waits until it is opened.
private final class StalledDisk: Sendable {
  private let condition = NSCondition()
  // Both are touched under `condition` only.
  nonisolated(unsafe) private var isOpen = false
  nonisolated(unsafe) private var writers = 0

  @Sendable func write() {
    condition.withLock {
      writers += 1
      while !isOpen { condition.wait() }
    }
  }

  func open() {
    condition.withLock {
      isOpen = true
      condition.broadcast()
    }
  }

  var writersThatWait: Int { condition.withLock { isOpen ? 0 : writers } }
}

@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct StalledDownloadTests {
  private let server = LoopbackServer.shared!
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  private func target(_ name: String) -> URL { directory.url.appendingPathComponent(name) }

  /// Starts a download without end. Returns when its first piece waits for the disk.
  private func stall(
    _ id: String, on disk: StalledDisk, client: RequestClient, lifetime: OwnerLifetime, timeout: Duration? = nil,
    idleLimit: Duration? = nil, goesOn: Bool = true
  ) async throws -> RequestOperation<URL> {
    let target = target(id)
    var request = Request(.get, "flood?id=\(id)\(goesOn ? "&etag=strong" : "")")
    if let timeout { request.timeout = timeout }
    if let idleLimit { request.idleLimit = idleLimit }
    let operation = RequestOperation(
      request, client: client, lifetime: lifetime, decoding: ResponseDecoder { _, _ in target },
      download: DownloadFile(target, DownloadExpectation(), willWrite: disk.write))
    let former = disk.writersThatWait
    // Nor is a limit of time reached before.
    let timers = await HeldTimers()
    defer { timers.goOn() }
    client.startAtOnce(operation)
    #expect(try await eventually { disk.writersThatWait > former })
    return operation
  }

  @Test func cancellingADownloadWaitsForNoDiskAndClosesItsConnection() async throws {
    let disk = StalledDisk()
    defer { disk.open() }
    let operation = try await stall("stalled-cancel", on: disk, client: server.client(), lifetime: .process)
    #expect(try await returns { operation.cancel() })
    #expect(operation.isFinished)
    try await server.reaches(.closed, of: "stalled-cancel", 1)
  }

  @Test func anOwnersEndWaitsForNoDiskAndClosesTheConnection() async throws {
    let disk = StalledDisk()
    defer { disk.open() }
    let lifetime = OwnerLifetime()
    let operation = try await stall("stalled-end", on: disk, client: server.client(), lifetime: lifetime)
    #expect(try await returns { lifetime.end() })
    try await server.reaches(.closed, of: "stalled-end", 1)
    // The connection goes first.
    await operation.finished()
    guard case .cancelled(.ownerEnded)? = operation.outcome else {
      Issue.record("\(String(describing: operation.outcome))")
      return
    }
  }

  @Test func aStalledDownloadGivesItsTurnBackWhenItIsCancelled() async throws {
    let disk = StalledDisk()
    defer { disk.open() }
    let client = server.client { $0.maxConcurrentRequestsPerHost = 1 }
    let operation = try await stall("stalled-turn", on: disk, client: client, lifetime: .process)
    let next = client.send(Request(.get, "echo"), lifetime: .process, decoding: .data) { _ in }
    #expect(!next.isFinished)
    #expect(try await returns { operation.cancel() })
    #expect(try await next.value.status == 200)
  }

  /// Whether or not they can be gone on with.
  @Test(arguments: [true, false])
  func stalledDownloadsHoldUpNobodyElse(goesOn: Bool) async throws {
    let count = 20
    let disk = StalledDisk()
    defer { disk.open() }
    let client = server.client { $0.maxConcurrentRequestsPerHost = count + 4 }
    let lifetime = OwnerLifetime()
    var stalled: [RequestOperation<URL>] = []
    func id(_ number: Int) -> String { "stalled-\(goesOn)-\(number)" }
    for number in 0..<count {
      // However long all of this takes, the disk does not stall for too long.
      let operation = try await stall(id(number), on: disk, client: client, lifetime: lifetime, idleLimit: .seconds(600), goesOn: goesOn)
      stalled.append(operation)
    }
    #expect(try await client.response(to: Request(.get, "echo"), lifetime: .process, decoding: .data).status == 200)
    let other = target("other")
    _ = try await client.download(Request(.get, "bytes?id=stalled-other&length=300000"), to: other, lifetime: .process).value
    #expect(try Data(contentsOf: other).count == 300_000)
    var late = Request(.get, "hang?id=stalled-late")
    late.timeout = .milliseconds(100)
    let error = await failure { _ = try await client.response(to: late, lifetime: .process, decoding: .data) }
    guard case .timedOut? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(stalled.allSatisfy { !$0.isFinished })
    #expect(try await returns { lifetime.end() })
    for number in 0..<count { try await server.reaches(.closed, of: id(number), 1) }
  }

  @Test func aDownloadWhoseDiskStallsGivesItsConnectionUpAndGoesOnWithTheDisk() async throws {
    let disk = StalledDisk()
    defer { disk.open() }
    let target = target("cut")
    let client = server.client()
    let operation = RequestOperation(
      // More pieces than may wait, and after them fewer: should the disk be slow when it goes on, it is not taken to stall again.
      // The server goes on waiting: the system's buffers may hold all that is sent.
      Request(.get, "bytes?id=stalled-cut&length=1600000&etag=strong&cuts=1&after=1500000&then=hang"), client: client, lifetime: .process,
      decoding: ResponseDecoder { _, _ in target }, download: DownloadFile(target, DownloadExpectation(), willWrite: disk.write))
    client.startAtOnce(operation)
    #expect(try await eventually { disk.writersThatWait > 0 })
    // The server is rid of the request although nobody has cancelled it.
    let server = server
    let isRid = try await eventually { (try? await server.tell(LoopbackServer.Counter.open, of: "stalled-cut")) == 0 }
    #expect(isRid)
    #expect(!operation.isFinished)
    disk.open()
    let response = try await operation.value
    // More than two if the pieces came small: so much is left then that the disk may be taken to stall again.
    #expect(response.status == 206 && response.attempts >= 2)
    #expect(try Data(contentsOf: target).count == 1_600_000)
    let whole = try await client.response(
      to: Request(.get, "bytes?id=stalled-whole&length=1600000&etag=strong"), lifetime: .process, decoding: .data)
    #expect(try Data(contentsOf: target) == whole.value)
  }

  @Test func aStalledDownloadTimesOutAndLeavesTheTimersAlone() async throws {
    let disk = StalledDisk()
    defer { disk.open() }
    let client = server.client()
    let operation = try await stall("stalled-late", on: disk, client: client, lifetime: .process, timeout: .milliseconds(500))
    #expect(try await eventually { operation.isFinished })
    guard case .failure(.timedOut)? = operation.result else {
      Issue.record("\(String(describing: operation.result))")
      return
    }
    try await server.reaches(.closed, of: "stalled-late", 1)
    var late = Request(.get, "hang?id=stalled-later")
    late.timeout = .milliseconds(100)
    let error = await failure { _ = try await client.response(to: late, lifetime: .process, decoding: .data) }
    guard case .timedOut? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
  }

  @Test func aDiskThatStallsForTooLongIsTheErrorAndItsFileIsNamed() async throws {
    let disk = StalledDisk()
    defer { disk.open() }
    let operation = try await stall("stalled-idle", on: disk, client: server.client(), lifetime: .process, idleLimit: .milliseconds(500))
    #expect(try await eventually { operation.isFinished })
    guard case .failure(.fileSystem(let reason as FileFailure))? = operation.result else {
      Issue.record("\(String(describing: operation.result))")
      return
    }
    #expect(reason.action == "write" && reason.path == target("stalled-idle").path + ".part")
    try await server.reaches(.closed, of: "stalled-idle", 1)
  }

  @Test func aFileIsNobodyElsesWhileAWriteToItIsUnderWay() async throws {
    let disk = StalledDisk()
    defer { disk.open() }
    let operation = try await stall("stalled-file", on: disk, client: server.client(), lifetime: .process)
    #expect(try await returns { operation.cancel() })
    #expect(try !DownloadFile(target("stalled-file"), DownloadExpectation()).acquire())
    disk.open()
    let next = DownloadFile(target("stalled-file"), DownloadExpectation())
    #expect(try await eventually { (try? next.acquire()) == true })
    // What was written when the disk went on is a beginning to go on from, and no piece came after it.
    let part = try Data(contentsOf: URL(fileURLWithPath: target("stalled-file").path + ".part"))
    #expect(part.allSatisfy { $0 == UInt8(ascii: "x") } && part.count <= 65536)
  }

  /// All that a transfer has to do with, and the order in which it comes to it.
  private final class Course: SessionSource, TransferSink, TransferSubscriber {
    let journal = Journal<String>()
    private let session = TransferSession(configuration: .ephemeral, isBacklogLimited: true)

    func take() -> TransferSession { session }
    func giveBack(_ session: TransferSession) { journal.write("session given back") }

    func begin(_ head: ResponseHead) -> Bool { true }
    func write(_ data: Data) {}
    func end() { journal.write("file in place") }
    func isStalled() -> Bool { false }

    var isWanted: Bool { true }
    var acceptedStatus: Range<Int> { 200..<300 }
    func transferDidBegin(attempt: Int) {}
    func transferDidProgress(_ progress: TransferProgress, attempt: Int) {}
    func transferDidEnd(_ result: Result<Exchange, RequestError>, head: ResponseHead?, attempt: Int) { journal.write("over") }
  }

  /// Or the next one's pieces would wait behind the end of this one's file.
  @Test func aSessionIsNobodyElsesBeforeTheFileIsInPlace() async throws {
    let course = Course()
    let hub = TransferHub(session: course.take(), limits: HostLimits(limit: 1))
    let urlRequest = URLRequest(url: try #require(URL(string: "\(server.base)/bytes?length=100")))
    let place = hub.subscribe(
      course, attempt: 1, to: Outgoing(urlRequest: urlRequest, body: .none), key: nil, priority: .normal, sink: course, sessions: course)
    #expect(place != nil)
    try await course.journal.reaches(3)
    #expect(course.journal.entries == ["file in place", "session given back", "over"])
  }
}
