import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// A disk of a few pages, that goes with the test. Takes the right to mount.
private final class SmallDisk {
  let url: URL
  private let place: TemporaryDirectory

  /// Where they are insisted on they aren't skipped: they fail where there is no disk for them.
  static let isThere: Bool = {
    if ProcessInfo.processInfo.environment["OWNED_OPERATIONS_FULL_DISK"] == "1" { return true }
    if (try? SmallDisk(kilobytes: 64)) != nil { return true }
    print("notice: tests with a full disk are skipped: a tmpfs can't be mounted")
    return false
  }()

  private struct NoMount: Error, CustomStringConvertible {
    let description: String
  }

  init(kilobytes: Int) throws {
    place = try TemporaryDirectory()
    url = place.url
    try Self.run("mount", "-t", "tmpfs", "-o", "size=\(kilobytes)k", "none", url.path)
  }

  func grow(toKilobytes size: Int) throws { try Self.run("mount", "-o", "remount,size=\(size)k", url.path) }

  deinit { try? Self.run("umount", "-l", url.path) }

  private static func run(_ arguments: String...) throws {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = arguments
    process.standardError = FileHandle.nullDevice
    try process.run()
    process.waitUntilExit()
    guard process.terminationStatus == 0 else {
      throw NoMount(description: "\(arguments.joined(separator: " ")): status \(process.terminationStatus); tests with a full disk need it")
    }
  }
}

@Suite(.enabled(if: SmallDisk.isThere), .serialized) struct FullDiskTests {
  private func key(_ path: String) -> TransferKey { TransferKey(URLRequest(url: URL(string: "http://localhost/\(path)")!)) }

  private func entry(_ byte: UInt8, _ count: Int) -> CachedResponse {
    CachedResponse(
      head: ResponseHead(status: 200, headers: [:], url: URL(string: "http://localhost/a")!), body: Data(repeating: byte, count: count),
      storedAt: Date(timeIntervalSince1970: 1_000_000))
  }

  @Test func aFullDiskUnderTheCacheIsToldByFlushAndHarmsNoEntry() async throws {
    let disk = try SmallDisk(kilobytes: 256)
    let cache = try ResponseCache(directory: disk.url, memoryLimit: 10_000_000, diskLimit: 10_000_000)
    for number in 0..<UInt8(6) { cache.store(entry(number, 100_000), for: key("\(number)")) }
    await #expect(throws: CocoaError.self) { try await cache.flush() }
    // In memory all of them, in files those for which there was room, and nothing else.
    #expect((0..<UInt8(6)).allSatisfy { cache.response(for: key("\($0)")) == entry($0, 100_000) })
    let names = try FileManager.default.contentsOfDirectory(atPath: disk.url.path)
    #expect(names.count == 2 && names.allSatisfy { $0.hasSuffix(".response") })
    let later = try ResponseCache(directory: disk.url, memoryLimit: 0, diskLimit: 10_000_000)
    let found = (0..<UInt8(6)).filter { later.response(for: key("\($0)")) == entry($0, 100_000) }
    #expect(found == [0, 1])
    // Nor is an older answer found in the place of one that can't be written.
    later.store(entry(9, 200_000), for: key("0"))
    await #expect(throws: (any Error).self) { try await later.flush() }
    #expect(later.response(for: key("0")) == nil && later.response(for: key("1")) == entry(1, 100_000))
    // With room again, all is well.
    try disk.grow(toKilobytes: 2000)
    cache.store(entry(7, 100_000), for: key("7"))
    try await cache.flush()
    #expect(later.response(for: key("7")) == entry(7, 100_000))
  }

  @Test func theChecksumIsOfWhatIsInTheFileAlsoAfterAWriteThatWasCutShort() throws {
    let disk = try SmallDisk(kilobytes: 64)
    let content = Data((0..<100_000).map { UInt8(truncatingIfNeeded: $0 >> 3) })
    let target = disk.url.appendingPathComponent("file")
    let expectation = DownloadExpectation(sha256: SHA256.hexadecimal(SHA256.digest(of: content)))
    let file = DownloadFile(target, expectation)
    #expect(try file.acquire())
    let address = try #require(URL(string: "http://localhost/file"))
    var urlRequest = URLRequest(url: address)
    try file.adapt(&urlRequest)
    #expect(try file.begin(ResponseHead(status: 200, headers: ["ETag": "\"1\"", "Content-Length": "100000"], url: address)))
    try file.write(content.prefix(20000))
    #expect(throws: RequestError.self) { try file.write(content[20000...]) }
    try disk.grow(toKilobytes: 1000)
    try file.adapt(&urlRequest)
    let range = try #require(urlRequest.value(forHTTPHeaderField: "Range"))
    let start = try #require(Int(range.dropFirst("bytes=".count).dropLast()))
    // Otherwise it was not cut short.
    #expect(start > 20000 && start < 100_000)
    let head = ResponseHead(status: 206, headers: ["Content-Range": "bytes \(start)-99999/100000"], url: address)
    #expect(try file.begin(head))
    try file.write(content[start...])
    try file.end()
    file.letGo()
    #expect(try Data(contentsOf: target) == content)
  }

  @Test(.enabled(if: LoopbackServer.isThere)) func aFullDiskUnderADownloadIsToldAndTheDownloadGoesOnWithRoom() async throws {
    let disk = try SmallDisk(kilobytes: 256)
    let server = try #require(LoopbackServer.shared)
    let target = disk.url.appendingPathComponent("file.bin")
    // More than there is room for, in fewer pieces than may wait: the disk is not taken to stall.
    var request = Request(.get, "bytes?id=full-disk&length=700000&etag=strong")
    request.retry = .exponential(attempts: 5, base: .milliseconds(1))
    let client = server.client()
    let error = await failure { _ = try await client.download(request, to: target, lifetime: .process).value }
    guard case .fileSystem(let reason as FileFailure) = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    // Whichever of the two comes to it: the pieces are as large as they come.
    #expect(reason.code == ENOSPC && reason.action == "write")
    #expect([".part", ".part.info"].map { target.path + $0 }.contains(reason.path))
    // A full disk is no reason to ask again.
    #expect(try await server.tell(.count, of: "full-disk") == 1)
    #expect(try FileManager.default.contentsOfDirectory(atPath: disk.url.path).sorted() == ["file.bin.part", "file.bin.part.info"])
    try disk.grow(toKilobytes: 4000)
    let digest = Data(SHA256.digest(of: Data("1".utf8)))
    let content = (0..<21876).reduce(into: Data()) { data, _ in data += digest }.prefix(700_000)
    let expectation = DownloadExpectation(sha256: SHA256.hexadecimal(SHA256.digest(of: content)))
    let response = try await client.download(request, to: target, lifetime: .process, expecting: expectation).value
    #expect(response.status == 206)
    #expect(response.headers["X-Range"].map { $0.hasPrefix("bytes=") && $0 != "bytes=0-" } == true)
    #expect(try Data(contentsOf: target) == content)
    #expect(try FileManager.default.contentsOfDirectory(atPath: disk.url.path) == ["file.bin"])
  }

  @Test(.enabled(if: LoopbackServer.isThere)) func aFullDiskUnderAFormIsToldAndNothingIsSentOrLeft() async throws {
    let disk = try SmallDisk(kilobytes: 64)
    let address = try #require(LoopbackServer.shared).base.appendingPathComponent("order").absoluteString + "?id=full-form"
    await #expect(processExitsWith: .success) { [path = disk.url.path as String, address = address as String] in
      setenv("TMPDIR", path, 1)
      var form = MultipartForm()
      form.append(Data(count: Int(MultipartForm.longestInMemory)), name: "content")
      let request = Request(.post, address, parameters: .multipart(form))
      let error = await failure { _ = try await RequestClient().response(to: request, lifetime: .process, decoding: .empty) }
      guard case .fileSystem? = error else { fatalError("\(String(describing: error))") }
    }
    #expect(try FileManager.default.contentsOfDirectory(atPath: disk.url.path).isEmpty)
    #expect(try await LoopbackServer.shared?.tell(.count, of: "full-form") == 0)
  }

  @Test(.enabled(if: LoopbackServer.isThere)) func aDiskWithoutRoomForASingleByteIsToldAndNothingIsLeft() async throws {
    let disk = try SmallDisk(kilobytes: 64)
    let server = try #require(LoopbackServer.shared)
    let filler = disk.url.appendingPathComponent("filler")
    let file = open(filler.path, O_WRONLY | O_CREAT, 0o600)
    let page = [UInt8](repeating: 1, count: 4096)
    while write(file, page, page.count) > 0 {}
    close(file)
    let target = disk.url.appendingPathComponent("file.bin")
    let request = Request(.get, "bytes?id=no-room&length=1000&etag=strong")
    let error = await failure { _ = try await server.client().download(request, to: target, lifetime: .process).value }
    guard case .fileSystem(let reason as FileFailure) = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(reason.code == ENOSPC && reason.path.hasPrefix(target.path + ".part"))
    #expect(try FileManager.default.contentsOfDirectory(atPath: disk.url.path) == ["filler"])
  }
}
