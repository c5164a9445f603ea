#if os(Linux)
  import Foundation
  import OwnedOperations
  import Testing

  @testable import OwnedRequests

  /// A listener whose next connection is not made before there is room: the one that nobody accepts fills its line.
  private final class BusyListener: Sendable {
    let port: UInt16
    private let descriptor: Int32
    private let filler: Int32
    private let accepted = Guarded<[Int32]>([])

    init?() {
      let type = Int32(SOCK_STREAM.rawValue)
      descriptor = socket(AF_INET, type, 0)
      filler = socket(AF_INET, type, 0)
      var address = sockaddr_in()
      address.sin_family = sa_family_t(AF_INET)
      address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
      var length = socklen_t(MemoryLayout<sockaddr_in>.size)
      let isThere = withUnsafeMutablePointer(to: &address) { [descriptor, filler] address in
        address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          bind(descriptor, $0, length) == 0 && listen(descriptor, 0) == 0 && getsockname(descriptor, $0, &length) == 0
            && connect(filler, $0, length) == 0
        }
      }
      port = UInt16(bigEndian: address.sin_port)
      // Both ends know of the connection: the line is full.
      var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      if !isThere || poll(&waiting, 1, 10_000) != 1 { return nil }
    }

    deinit { for descriptor in accepted.withLock({ $0 }) + [filler, descriptor] { close(descriptor) } }

    /// Whether somebody waits for a connection to be made.
    var isAsked: Bool {
      let lines = String(decoding: Self.connections, as: UTF8.self).split(separator: "\n")
      let address = "0100007F:" + String(port, radix: 16, uppercase: true).leftPadded(to: 4)
      return lines.contains { line in
        let fields = line.split(separator: " ")
        return fields.count > 3 && fields[2] == address && fields[3] == "02"
      }
    }

    /// What the system says of them, a page with each read. Foundation takes the first for all.
    private static var connections: [UInt8] {
      let file = open("/proc/net/tcp", O_RDONLY)
      defer { close(file) }
      var (all, page) = ([UInt8](), [UInt8](repeating: 0, count: 65536))
      while case let count = read(file, &page, page.count), count > 0 { all += page.prefix(count) }
      return all
    }

    /// Makes room, on a thread of its own. Reads what comes, and answers nothing.
    func acceptAll() {
      Thread.detachNewThread { [self] in
        for _ in 0..<2 {
          let connection = accept(descriptor, nil, nil)
          accepted.withLock { $0.append(connection) }
        }
      }
    }
  }

  extension String {
    fileprivate func leftPadded(to length: Int) -> String { String(repeating: "0", count: max(0, length - count)) + self }
  }

  /// Files that go, or are replaced, after a session has looked at their length and before it has opened them: while it connects.
  @Suite(.serialized) struct VanishingFileTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    /// Sends a file that is changed before it is opened, and tells why that fails.
    /// - Parameter redirect: sends the request on to where it can't connect yet.
    private func failureOfUpload(
      redirect: (String) -> String = { $0 }, _ change: (URL) throws -> Void
    ) async throws -> FileFailure? {
      let listener = try #require(BusyListener())
      let file = try directory.file("upload", Data(count: 1 << 20))
      var request = Request(
        .put, redirect("http://127.0.0.1:\(listener.port)/"), parameters: .file(file, contentType: "application/octet-stream"))
      // Far more than it takes to notice.
      request.idleLimit = .seconds(600)
      let operation = RequestClient().send(request, lifetime: .process, decoding: .data) { _ in }
      try #require(try await soon { listener.isAsked })
      try change(file)
      listener.acceptAll()
      guard case .fileSystem(let reason as FileFailure)? = await failure({ _ = try await operation.value }) else {
        Issue.record("\(String(describing: operation.result))")
        return nil
      }
      #expect(reason.path == file.path)
      return reason
    }

    @Test func aFileThatVanishesBeforeItIsOpenedIsNamed() async throws {
      let reason = try await failureOfUpload { #expect(unlink($0.path) == 0) }
      #expect(reason?.code == ENOENT)
    }

    /// All of it has been sent once, to who has sent it on.
    @Test(.enabled(if: LoopbackServer.isThere)) func aFileThatVanishesBeforeItIsOpenedForARedirectIsNamed() async throws {
      let base = try #require(LoopbackServer.shared).base
      let reason = try await failureOfUpload(redirect: { "\(base)/redirect?status=307&to=\($0)" }, { #expect(unlink($0.path) == 0) })
      #expect(reason?.code == ENOENT)
    }

    @Test(arguments: [0, 1000]) func aFileThatIsReplacedByAShorterOneBeforeItIsOpenedIsNamed(length: Int) async throws {
      let other = try directory.file("other", Data(count: length))
      let reason = try await failureOfUpload { #expect(rename(other.path, $0.path) == 0) }
      #expect(reason?.code == ENODATA)
    }
  }
#endif
