import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// The file in which a form is laid out before it is sent.
@Suite(.serialized) struct FormLayoutTests {
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  /// Other files of the tests have longer names.
  private static var layouts: [String] {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: FileManager.default.temporaryDirectory.path)) ?? []
    return names.filter { $0.hasPrefix("owned-requests-") && $0.utf8.count == "owned-requests-".utf8.count + UUID().uuidString.utf8.count }
  }

  @Test func nobodyElseMayReadIt() throws {
    let former = umask(0)
    defer { umask(former) }
    let file = try TemporaryFile()
    var status = stat()
    #expect(stat(file.url.path, &status) == 0)
    #expect(status.st_mode & 0o777 == 0o600)
  }

  @Test(.enabled(if: LoopbackServer.isThere), arguments: ["answer", "error", "cancel", "end", "time", "changed"])
  func itGoesWithTheRequest(by end: String) async throws {
    let server = try #require(LoopbackServer.shared)
    let former = Set(Self.layouts)
    let file = try directory.file("content", Data(count: 100_000))
    var form = MultipartForm()
    try form.append(file: file, name: "content")
    var request = Request(.post, "held?id=layout-\(end)", parameters: .multipart(form))
    switch end {
    case "answer": request.url = "echo"
    case "error": request.url = "status?status=500"
    case "time": request.timeout = .milliseconds(200)
    case "changed": try Data(count: 10).write(to: file)
    default: break
    }
    let lifetime = OwnerLifetime()
    // The limit is reached when all is sent, and not before.
    let timers = await end == "time" ? HeldTimers() : nil
    let operation = server.client().send(request, lifetime: lifetime, decoding: .data) { _ in }
    if ["cancel", "end", "time"].contains(end) {
      // Foundation on Linux stops the process if an upload ends while its session waits for more of the file. The server reads nothing of
      // it, but so much fits into the sockets.
      for await step in operation.progress where step.bytesSent == step.bytesToSend { break }
      try await server.reaches(.open, of: "layout-\(end)", 1)
      #expect(Self.layouts.count { !former.contains($0) } == 1)
    }
    timers?.goOn()
    if end == "cancel" { operation.cancel() }
    if end == "end" { lifetime.end() }
    #expect(try await soon { operation.isFinished })
    #expect(try await soon { Set(Self.layouts).isSubset(of: former) })
  }

  // MARK: In line

  private func form(_ name: String, _ length: Int) throws -> (MultipartForm, URL) {
    let file = try directory.file(name, Data(repeating: 7, count: length))
    var form = MultipartForm()
    try form.append(file: file, name: name)
    return (form, file)
  }

  @Test(.enabled(if: LoopbackServer.isThere)) func formsThatWaitForTheirTurnAreNotLaidOut() async throws {
    let server = try #require(LoopbackServer.shared)
    let former = Set(Self.layouts)
    let client = server.client { $0.maxConcurrentRequestsPerHost = 1 }
    client.send(Request(.get, "held?id=layout-line"), lifetime: .process, decoding: .empty) { _ in }
    try await server.reaches(.count, of: "layout-line", 1)
    let (files, _) = try form("in-line", 100_000)
    var memory = MultipartForm()
    memory.append(Data(repeating: 7, count: 2_000_000), name: "memory")
    let forms = (0..<40).map { $0 % 2 == 0 ? files : memory }
    let operations = forms.map { form in
      client.send(Request(.post, "echo?id=layout-lined", parameters: .multipart(form)), lifetime: .process, decoding: .json(Echo.self)) {
        _ in
      }
    }
    #expect(try await soon { client.hub.limits.waitingCount == forms.count })
    #expect(Set(Self.layouts).isSubset(of: former))
    try await server.release("layout-line")
    for (form, operation) in zip(forms, operations) {
      let echo = try await operation.value.value
      #expect(Int64(echo.length) == form.contentLength && echo.headers["content-length"] == "\(form.contentLength)")
      // One at a time, and a few that are about to go: who has laid one out may still hold its file when the answer is there, on a thread
      // that has no processor.
      #expect(Self.layouts.count { !former.contains($0) } <= 8)
    }
    #expect(try await soon { Set(Self.layouts).isSubset(of: former) })
  }

  @Test(.enabled(if: LoopbackServer.isThere)) func aFormWhoseFileHasChangedInLineIsRefusedAndMakesRoom() async throws {
    let server = try #require(LoopbackServer.shared)
    let former = Set(Self.layouts)
    let client = server.client { $0.maxConcurrentRequestsPerHost = 1 }
    client.send(Request(.get, "held?id=layout-changed"), lifetime: .process, decoding: .empty) { _ in }
    try await server.reaches(.count, of: "layout-changed", 1)
    let (form, file) = try form("changing", 1000)
    var request = Request(.put, "echo?id=layout-refused", parameters: .multipart(form))
    request.retry = .exponential(attempts: 3)
    let operation = client.send(request, lifetime: .process, decoding: .empty) { _ in }
    let next = client.send(Request(.get, "echo"), lifetime: .process, decoding: .empty) { _ in }
    // What it was when the request began is found to be in order.
    #expect(try await soon { client.hub.limits.waitingCount == 2 })
    try Data(count: 10).write(to: file)
    try await server.release("layout-changed")
    let error = await failure { _ = try await operation.value }
    #expect(error?.explanation?.contains("changing") == true, "\(String(describing: error))")
    _ = try await next.value
    #expect(try await server.tell(.count, of: "layout-refused") == 0)
    #expect(Set(Self.layouts).isSubset(of: former))
  }

  @Test(.enabled(if: LoopbackServer.isThere)) func anotherAttemptAndARedirectSendTheWholeForm() async throws {
    let server = try #require(LoopbackServer.shared)
    let former = Set(Self.layouts)
    let (form, _) = try form("again", 100_000)
    var again = Request(.put, "flaky?id=layout-again&failures=1", parameters: .multipart(form))
    again.retry = .exponential(attempts: 2, base: .milliseconds(1))
    let response = try await server.client().response(to: again, lifetime: .process, decoding: .string)
    #expect(response.value == "2" && response.attempts == 2)
    for status in [307, 303] {
      let moved = Request(.post, "redirect?status=\(status)&to=\(server.other.absoluteString)/echo", parameters: .multipart(form))
      let echo = try await server.client().response(to: moved, lifetime: .process, decoding: .json(Echo.self)).value
      #expect(Int64(echo.length) == (status == 307 ? form.contentLength : 0))
    }
    #expect(try await soon { Set(Self.layouts).isSubset(of: former) })
  }
}
