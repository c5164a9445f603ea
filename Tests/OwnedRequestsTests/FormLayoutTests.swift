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
    let operation = server.client().send(request, lifetime: lifetime, decoding: .data) { _ in }
    if ["cancel", "end"].contains(end) {
      try await server.reaches(.open, of: "layout-\(end)", 1)
      #expect(Self.layouts.count { !former.contains($0) } == 1)
    }
    if end == "cancel" { operation.cancel() }
    if end == "end" { lifetime.end() }
    #expect(try await soon { operation.isFinished })
    #expect(try await soon { Set(Self.layouts).isSubset(of: former) })
  }
}
