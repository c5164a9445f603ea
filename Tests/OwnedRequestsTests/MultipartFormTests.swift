import Foundation
import Testing

@testable import OwnedRequests

@Suite struct MultipartFormTests {
  private let hello = Data("hello".utf8)

  private func encoded(_ form: MultipartForm) throws -> String {
    let directory = try TemporaryDirectory()
    let file = try directory.file("form", Data())
    try form.write(to: file)
    let bytes = try Data(contentsOf: file)
    #expect(Int64(bytes.count) == form.contentLength)
    if !form.isLaidOut { #expect(form.bytes() == bytes) }
    return String(decoding: bytes, as: UTF8.self)
  }

  @Test func anEmptyFormIsItsLastDelimiter() throws {
    #expect(try encoded(MultipartForm(boundary: "B")) == "--B--\r\n")
  }

  @Test func oneFieldIsEncoded() throws {
    var form = MultipartForm(boundary: "B")
    form.append(hello, name: "data")
    #expect(try encoded(form) == "--B\r\nContent-Disposition: form-data; name=\"data\"\r\n\r\nhello\r\n--B--\r\n")
  }

  @Test func severalPartsAreEncodedInOrder() throws {
    var form = MultipartForm(boundary: "B")
    form.append(Data("français".utf8), name: "french", mimeType: "text/plain")
    form.append(Data(), name: "empty")
    form.append(hello, name: "file", fileName: "a.png")
    let expected =
      "--B\r\nContent-Disposition: form-data; name=\"french\"\r\nContent-Type: text/plain\r\n\r\nfrançais"
      + "\r\n--B\r\nContent-Disposition: form-data; name=\"empty\"\r\n\r\n"
      + "\r\n--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.png\"\r\nContent-Type: image/png\r\n\r\nhello\r\n--B--\r\n"
    #expect(try encoded(form) == expected)
  }

  @Test func filesAreEncodedWithTheirNamesAndTypes() throws {
    let directory = try TemporaryDirectory()
    var form = MultipartForm(boundary: "B")
    try form.append(file: directory.file("picture.JPG", hello), name: "picture")
    try form.append(file: directory.file("unknown.xyz", Data()), name: "other", fileName: "b", mimeType: "x/y")
    let expected =
      "--B\r\nContent-Disposition: form-data; name=\"picture\"; filename=\"picture.JPG\"\r\nContent-Type: image/jpeg\r\n\r\nhello"
      + "\r\n--B\r\nContent-Disposition: form-data; name=\"other\"; filename=\"b\"\r\nContent-Type: x/y\r\n\r\n\r\n--B--\r\n"
    #expect(try encoded(form) == expected)
  }

  @Test func namesCannotBreakOutOfTheirQuotes() throws {
    var form = MultipartForm(boundary: "B")
    form.append(hello, name: "a\"; x=\"y\r\nX-Evil: 1", fileName: "ü\".txt")
    let disposition = "Content-Disposition: form-data; name=\"a%22; x=%22y%0D%0AX-Evil: 1\"; filename=\"ü%22.txt\"\r\n"
    #expect(try encoded(form) == "--B\r\n\(disposition)Content-Type: text/plain\r\n\r\nhello\r\n--B--\r\n")
  }

  @Test func aTypeWithALineBreakIsRefusedByName() {
    var form = MultipartForm()
    form.append(hello, name: "field", mimeType: "a/b\r\nX: y")
    #expect(refusal(of: Request(.post, "http://localhost/", parameters: .multipart(form)))?.contains("\"field\"") == true)
  }

  @Test func eachFormHasABoundaryOfItsOwn() {
    let boundaries = Set((0..<100).map { _ in MultipartForm().boundary })
    #expect(boundaries.count == 100)
    #expect(boundaries.allSatisfy { $0.utf8.count <= 70 })
    let form = MultipartForm()
    #expect(form.contentType == "multipart/form-data; boundary=\(form.boundary)")
  }

  @Test func filesThatCannotBeReadAreRefusedByName() throws {
    let directory = try TemporaryDirectory()
    var form = MultipartForm()
    for file in [directory.url.appendingPathComponent("missing"), directory.url, URL(string: "http://localhost/")!] {
      do {
        try form.append(file: file, name: "attachment")
        Issue.record("\(file) was taken")
      } catch {
        #expect((error as? RequestError)?.explanation?.contains("\"attachment\"") == true)
      }
    }
    #expect(form.contentLength == MultipartForm().contentLength)
  }

  @Test func aFileThatHasChangedOrGoneIsRefusedByName() throws {
    let directory = try TemporaryDirectory()
    let file = try directory.file("a.txt", hello)
    var form = MultipartForm()
    try form.append(file: file, name: "attachment")
    let request = Request(.post, "http://localhost/", parameters: .multipart(form))
    #expect(refusal(of: request) == nil)
    try Data("longer than before".utf8).write(to: file)
    #expect(refusal(of: request)?.contains("\"attachment\"") == true)
    try FileManager.default.removeItem(at: file)
    #expect(refusal(of: request)?.contains("\"attachment\"") == true)
  }
}
