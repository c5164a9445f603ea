#if os(Linux)
  import Foundation
  import OwnedOperations
  import Testing

  @testable import OwnedRequests

  /// A sanitizer holds on to memory that has been freed.
  @Suite(.enabled(if: LoopbackServer.isThere && dlsym(nil, "__asan_init") == nil && dlsym(nil, "__tsan_init") == nil))
  struct UploadMemoryTests {
    /// Of `/proc/self/status`, in bytes.
    private static func memory(_ name: String) throws -> Int {
      let lines = try String(contentsOfFile: "/proc/self/status", encoding: .utf8).split(separator: "\n")
      let line = try #require(lines.first { $0.hasPrefix(name + ":") })
      return try #require(Int(line.split(whereSeparator: \.isWhitespace)[1])) << 10
    }

    private static func upload(_ parameters: (URL) throws -> Parameters) async throws {
      let server = try #require(LoopbackServer.shared)
      let directory = try TemporaryDirectory()
      let length = 300 << 20
      let file = try directory.file("upload", Data())
      #expect(truncate(file.path, off_t(length)) == 0)
      let client = server.client()
      // What the first request costs is of no file.
      _ = try await client.response(to: Request(.get, "echo"), lifetime: .process, decoding: .data)
      let before = try memory("VmRSS")
      let request = Request(.put, "slowly?piece=4000000&pause=0", parameters: try parameters(file))
      let told = try await client.response(to: request, lifetime: .process, decoding: .string).value
      #expect(Int(told).map { $0 >= length } == true)
      let growth = try memory("VmHWM") - before
      print("an upload of \(length >> 20) MiB took \(growth >> 10) KiB")
      #expect(growth < 24 << 20)
    }

    private static func show(_ child: ExitTest.Result?) {
      let lines = String(decoding: child?.standardOutputContent ?? [], as: UTF8.self).split(separator: "\n")
      for line in lines where line.contains("an upload of ") { print(line) }
    }

    // Each in a process of its own, so that the figures are of nothing else.
    @Test func aLargeFileIsUploadedInLittleMemory() async {
      let child = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
        try await UploadMemoryTests.upload { .file($0, contentType: "application/octet-stream") }
      }
      Self.show(child)
    }

    @Test func aFormWithALargeFileIsUploadedInLittleMemory() async {
      let child = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
        try await UploadMemoryTests.upload { file in
          var form = MultipartForm()
          form.append(Data("Ann".utf8), name: "author")
          try form.append(file: file, name: "attachment")
          return .multipart(form)
        }
      }
      Self.show(child)
    }
  }
#endif
