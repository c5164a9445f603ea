#if os(Linux)
  import Foundation
  import OwnedOperations
  import Testing

  @testable import OwnedRequests

  #if canImport(FoundationNetworking)
    import FoundationNetworking
  #endif

  /// A download that waits holds neither files nor a session.
  @Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct OpenFilesTests {
    private let server = LoopbackServer.shared!
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func target(_ name: String) -> URL { directory.url.appendingPathComponent(name) }

    /// What this process has open, by name. Sockets and the like have names of their kind.
    private static func openFiles() -> [String] {
      let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
      return names.compactMap { try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)") }
    }

    /// Whether nothing of the directory is open, at once or soon.
    private func nothingIsOpen() async throws -> Bool {
      let place = directory.url.resolvingSymlinksInPath().path
      return try await eventually { !Self.openFiles().contains { $0.hasPrefix(place) } }
    }

    @Test func aDownloadThatWaitsForItsNextAttemptHoldsNoFile() async throws {
      let path = "bytes?id=open-retry&length=50000&etag=strong&cuts=1&after=20000"
      var request = Request(.get, path)
      request.retry = .exponential(attempts: 2, base: .seconds(3600), cap: .seconds(3600))
      let operation = server.client().download(request, to: target("retry"), lifetime: .process)
      let part = target("retry.part").path
      #expect(try await eventually { (try? Data(contentsOf: URL(fileURLWithPath: part)).count) == 20000 })
      #expect(try await nothingIsOpen())
      #expect(!operation.isFinished)
      // The place is still its own.
      #expect(try !DownloadFile(target("retry"), DownloadExpectation()).acquire())
      operation.cancel()
      // Files are closed in the background.
      let next = DownloadFile(target("retry"), DownloadExpectation())
      #expect(try await eventually { (try? next.acquire()) == true })
    }

    @Test func aDownloadThatWaitsForItsServerOrItsTurnHoldsNoFile() async throws {
      let client = server.client { $0.maxConcurrentRequestsPerHost = 1 }
      let first = client.download(Request(.get, "held?id=open-first&body=whole"), to: target("first"), lifetime: .process)
      try await server.reaches(.count, of: "open-first", 1)
      let others = (0..<50).map { number in
        client.download(Request(.get, "bytes?length=10&n=\(number)"), to: target("\(number)"), lifetime: .process)
      }
      #expect(try await eventually { client.hub.limits.waitingCount == others.count })
      #expect(try await nothingIsOpen())
      try await server.release("open-first")
      for operation in others + [first] { _ = try await operation.value }
      #expect(try Data(contentsOf: target("first")) == Data("whole".utf8))
    }

    @Test func aDownloadThatWaitsForItsTurnAfterARedirectHoldsNoFile() async throws {
      let client = server.client { $0.maxConcurrentRequestsPerHost = 1 }
      client.send(Request(.get, server.other.absoluteString + "/held?id=open-redirect"), lifetime: .process, decoding: .empty) { _ in }
      try await server.reaches(.count, of: "open-redirect", 1)
      let to = server.other.absoluteString + "/bytes?length=10"
      let request = Request(.get, "redirect", parameters: .form(["id": "open-redirected", "to": .string(to)]))
      let download = client.download(request, to: target("redirected"), lifetime: .process)
      try await server.reaches(.count, of: "open-redirected", 1)
      #expect(try await eventually { client.hub.limits.waitingCount == 1 })
      // Its turn at the first host has been given back.
      _ = try await client.response(to: Request(.get, "echo"), lifetime: .process, decoding: .empty)
      #expect(try await nothingIsOpen())
      #expect(!download.isFinished)
      try await server.release("open-redirect")
      _ = try await download.value
    }

    // In a process of its own, so that what is open is its own.
    @Test func downloadsInLineHoldNoSessions() async {
      await #expect(processExitsWith: .success) {
        let server = try #require(LoopbackServer.shared)
        let directory = try TemporaryDirectory()
        let client = server.client { $0.maxConcurrentRequestsPerHost = 1 }
        let lifetime = OwnerLifetime()
        client.send(Request(.get, "held?id=open-line"), lifetime: .process, decoding: .empty) { _ in }
        try await server.reaches(.count, of: "open-line", 1)
        let before = OpenFilesTests.openFiles().count
        let operations = (0..<2000).map { number in
          client.download(Request(.get, "bytes?length=10"), to: directory.url.appendingPathComponent("\(number)"), lifetime: lifetime)
        }
        #expect(try await eventually { client.hub.limits.waitingCount == operations.count })
        // Some may just have looked at their files.
        #expect(try await eventually { OpenFilesTests.openFiles().count < before + 16 })
        lifetime.end()
        try await server.release("open-line")
      }
    }

    /// Two processes have nothing in common but the files.
    @Test func aPartThatAnotherProcessHasChangedMeanwhileIsNotGoneOnWith() throws {
      let address = try #require(URL(string: "http://localhost/file"))
      let file = DownloadFile(target("shared"), DownloadExpectation())
      _ = try directory.file("shared.part", Data(repeating: 1, count: 10))
      let info = DownloadFile.Info(url: address.absoluteString, validator: "\"1\"", length: 20)
      _ = try directory.file("shared.part.info", try JSONEncoder().encode(info))
      #expect(try file.acquire())
      defer { file.letGo() }
      var urlRequest = URLRequest(url: address)
      try file.adapt(&urlRequest)
      #expect(urlRequest.value(forHTTPHeaderField: "Range") == "bytes=10-")
      _ = try directory.file("shared.part", Data(repeating: 2, count: 12))
      let head = ResponseHead(status: 206, headers: ["ETag": "\"1\"", "Content-Range": "bytes 10-19/20"], url: address)
      #expect(throws: RequestError.self) { try file.begin(head) }
      #expect(file.takeStartsOver())
      file.rest()
      var next = URLRequest(url: address)
      try file.adapt(&next)
      #expect(next.value(forHTTPHeaderField: "Range") == nil)
    }

    @Test func theAnswersBodyIsRefusedWhileAnotherProcessWritesThere() throws {
      let address = try #require(URL(string: "http://localhost/file"))
      let file = DownloadFile(target("locked"), DownloadExpectation())
      #expect(try file.acquire())
      defer { file.letGo() }
      var urlRequest = URLRequest(url: address)
      try file.adapt(&urlRequest)
      let other = open(target("locked.part").path, O_RDWR | O_CREAT | O_CLOEXEC, 0o644)
      defer { close(other) }
      #expect(flock(other, LOCK_EX | LOCK_NB) == 0)
      #expect {
        try file.begin(ResponseHead(status: 200, headers: [:], url: address))
      } throws: {
        ($0 as? RequestError)?.explanation?.contains("another download") == true
      }
    }

    /// It discards what comes, and would leave the next download without an answer.
    @Test func aSessionThatWasToldToStopIsNotUsedAgain() throws {
      let sessions = DownloadSessions(configuration: .ephemeral)
      let first = sessions.take()
      sessions.giveBack(first)
      #expect(sessions.take() === first)
      let task = first.task(for: URLRequest(url: server.base), body: .none, receiver: Nobody())
      task.cancel()
      sessions.giveBack(first)
      #expect(sessions.take() !== first)
    }

    private final class Nobody: SessionTaskReceiver {
      func taskDidReceive(_ head: ResponseHead) {}
      func taskDidReceive(_ data: Data) {}
      func taskDidSend(_ bytes: Int64, of total: Int64?) {}
      func taskIsStalled() -> Bool { false }
      func taskDidComplete(_ error: URLError?) {}
    }
  }
#endif
