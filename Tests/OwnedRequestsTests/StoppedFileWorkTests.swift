import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// Reading and writing of files that nobody wants any more stops at the next piece.
@Suite struct StoppedFileWorkTests {
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  @Test func aPartIsNoLongerHashedForADownloadThatIsOver() throws {
    let target = directory.url.appendingPathComponent("file")
    let address = try #require(URL(string: "http://localhost/file"))
    _ = try directory.file("file.part", Data(count: 1 << 20))
    let info = DownloadFile.Info(url: address.absoluteString, validator: "\"1\"", length: 1 << 21)
    _ = try directory.file("file.part.info", try JSONEncoder().encode(info))
    let reads = Guarded(0)
    let under = Guarded<DownloadFile?>(nil)
    let file = DownloadFile(
      target, DownloadExpectation(sha256: String(repeating: "0", count: 64)),
      willRead: {
        let count = reads.withLock { reads in
          reads += 1
          return reads
        }
        if count == 2 { under.withLock { $0 }?.letGo() }
      })
    under.withLock { $0 = file }
    defer { under.withLock { $0 = nil } }
    #expect(try file.acquire())
    var urlRequest = URLRequest(url: address)
    #expect {
      try file.adapt(&urlRequest)
    } throws: {
      if case .cancelled? = $0 as? RequestError { true } else { false }
    }
    #expect(reads.withLock { $0 } == 2)
    // What is there stays there, and is nobody's.
    let next = DownloadFile(target, DownloadExpectation())
    #expect(try next.acquire())
    next.letGo()
    #expect(try Data(contentsOf: directory.url.appendingPathComponent("file.part")).count == 1 << 20)
  }

  @Test func aFileThatGrowsWhileItIsLaidOutIsNotFollowed() throws {
    let input = try directory.file("growing", Data(count: 10))
    var form = MultipartForm()
    try form.append(file: input, name: "growing")
    let output = try directory.file("output", Data())
    var questions = 0
    let writer = try FileHandle(forWritingTo: input)
    try writer.seekToEnd()
    #expect {
      try form.write(
        to: output,
        shouldStop: {
          questions += 1
          try? writer.write(contentsOf: Data(count: 10))
          return questions == 100
        })
    } throws: {
      ($0 as? RequestError)?.explanation?.contains("growing") == true
    }
    // Before the part, and after the piece that showed it.
    #expect(questions == 2)
  }

  @Test func aFormIsNoLongerLaidOutForARequestThatIsOver() throws {
    var form = MultipartForm()
    try form.append(file: directory.file("large", Data(count: 1 << 20)), name: "large")
    form.append(Data("last".utf8), name: "last")
    let output = try directory.file("output", Data())
    var questions = 0
    #expect {
      try form.write(
        to: output,
        shouldStop: {
          questions += 1
          return questions == 3
        })
    } throws: {
      if case .cancelled? = $0 as? RequestError { true } else { false }
    }
    #expect(questions == 3)
    #expect(try Data(contentsOf: output).count < 1 << 20)
  }
}
