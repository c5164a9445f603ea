import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// Downloads that are cut off because the disk stalls.
@Suite struct DownloadCutTests {
  private let directory: TemporaryDirectory
  private let address: URL

  init() throws {
    directory = try TemporaryDirectory()
    address = try #require(URL(string: "http://localhost/file"))
  }

  /// How often a download is cut off, if the disk stalls in each attempt.
  private func cuts(atMost most: Int, answers: (_ asked: String?, _ attempt: Int) -> (Int, HeaderFields)) throws -> Int {
    let file = DownloadFile(directory.url.appendingPathComponent("file"), DownloadExpectation())
    #expect(try file.acquire())
    defer { file.letGo() }
    for attempt in 0..<most {
      var urlRequest = URLRequest(url: address)
      try file.adapt(&urlRequest)
      let (status, headers) = answers(urlRequest.value(forHTTPHeaderField: "Range"), attempt)
      let head = ResponseHead(status: status, headers: headers, url: address)
      do throws(RequestError) {
        guard try file.begin(head) else { return attempt }
        try file.write(Data(count: 10))
      } catch {
        #expect(file.takeStartsOver())
        continue
      }
      guard file.isStalled() else { return attempt }
      #expect(file.takeCut())
    }
    return most
  }

  @Test func aServerThatKnowsNoRangesIsNotAskedForTheWholeAgainAndAgain() throws {
    #expect(try cuts(atMost: 20) { _, _ in (200, ["ETag": "\"1\""]) } == 1)
  }

  @Test func contentThatChangesAllTheTimeIsNotAskedForAgainAndAgain() throws {
    #expect(try cuts(atMost: 20) { _, attempt in (200, ["ETag": "\"\(attempt)\""]) } == 1)
  }

  @Test func aServerThatSendsWrongPartsIsNotAskedAgainAndAgain() throws {
    let wrong: HeaderFields = ["ETag": "\"1\"", "Content-Range": "bytes 3-5/100"]
    #expect(try cuts(atMost: 20) { asked, _ in asked == nil ? (200, ["ETag": "\"1\""]) : (206, wrong) } < 5)
  }

  @Test func aServerThatGoesOnIsAskedAsOftenAsTheDiskStalls() throws {
    let count = try cuts(atMost: 20) { asked, attempt in
      asked == nil
        ? (200, ["ETag": "\"1\"", "Content-Length": "1000"])
        : (206, ["ETag": "\"1\"", "Content-Range": "bytes \(attempt * 10)-999/1000"])
    }
    #expect(count == 20)
  }
}
