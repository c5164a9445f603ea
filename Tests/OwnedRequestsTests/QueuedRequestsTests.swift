import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if os(Linux)
  /// A listener that answers nothing, and counts who has connected.
  private final class SilentListener: Sendable {
    let port: UInt16
    private let descriptor: Int32
    private let accepted = Guarded<[Int32]>([])

    init?() {
      let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
      var address = sockaddr_in()
      address.sin_family = sa_family_t(AF_INET)
      address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
      var length = socklen_t(MemoryLayout<sockaddr_in>.size)
      let isBound = withUnsafeMutablePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          bind(descriptor, $0, length) == 0 && listen(descriptor, 1024) == 0 && getsockname(descriptor, $0, &length) == 0
        }
      }
      self.descriptor = descriptor
      port = UInt16(bigEndian: address.sin_port)
      if !isBound { return nil }
    }

    deinit { for descriptor in accepted.withLock({ $0 }) + [descriptor] { close(descriptor) } }

    /// How many connections have come since it was asked last. They stay open.
    func connections() -> Int {
      var count = 0
      while true {
        let connection = accept(descriptor, nil, nil)
        if connection < 0 { return count }
        count += 1
        accepted.withLock { $0.append(connection) }
      }
    }
  }

  /// What the process has allocated and not freed, as glibc tells it; zero where the allocator is another.
  private func allocatedBytes() -> Int {
    guard let symbol = dlsym(nil, "malloc_info"), let stream = tmpfile() else { return 0 }
    defer { fclose(stream) }
    let tell = unsafeBitCast(symbol, to: (@convention(c) (Int32, UnsafeMutablePointer<FILE>) -> Int32).self)
    guard tell(0, stream) == 0 else { return 0 }
    rewind(stream)
    var text = [UInt8](repeating: 0, count: 1 << 20)
    text.removeLast(text.count - fread(&text, 1, text.count, stream))
    // The totals come after those of each arena, a line each, such as `<total type="rest" count="5" size="4096"/>`.
    var sizes: [Substring: Int] = [:]
    for line in String(decoding: text, as: UTF8.self).split(separator: "\n") {
      let words = line.split(separator: "\"")
      if line.hasPrefix("<total") || line.hasPrefix("<system"), words.count > 3 { sizes[words[1]] = Int(words[words.count - 2]) }
    }
    return sizes["current", default: 0] + sizes["mmap", default: 0] - sizes["fast", default: 0] - sizes["rest", default: 0]
  }

  private func threads() -> Int { ((try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []).count }

  /// A hundred thousand wait at once. With `OWNED_REQUESTS_WAVES=10` there are ten such waves, and with `OWNED_REQUESTS_AT_ONCE=1000000`
  /// a million in one, which take minutes.
  private enum Scale {
    static let isSanitized = dlsym(nil, "__asan_init") != nil || dlsym(nil, "__tsan_init") != nil
    static let wave = setting("OWNED_REQUESTS_AT_ONCE") ?? 100_000
    static let owners = 1000
    /// Dispatch has 255 at most for what starts the requests, and keeps them for a while. However many requests wait, it has no more.
    static let threads = 300
    /// Tables keep the room to which one wave has made them grow: some hundred bytes a request, and no more with each wave.
    static let tables = wave * 200
    static let waves = setting("OWNED_REQUESTS_WAVES") ?? 1
    /// For each step of a wave.
    static let patience = Duration.seconds(180 * max(1, wave / 100_000))

    private static func setting(_ name: String) -> Int? { ProcessInfo.processInfo.environment[name].flatMap { Int($0) } }
  }

  // What a request costs is asked of glibc's allocator, which a sanitizer replaces.
  @Suite(.enabled(if: !Scale.isSanitized)) struct QueuedRequestsTests {
    private static func show(_ child: ExitTest.Result?) {
      let lines = String(decoding: child?.standardOutputContent ?? [], as: UTF8.self).split(separator: "\n")
      for line in lines where line.contains("requests ") { print(line) }
    }

    // In a process of its own, so that the figures are of nothing else.
    @Test func requestsInLineForTheirHostAreNeverSentAndLeaveNothingOnceTheirOwnersHaveGone() async {
      let child = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
        let listener = try #require(SilentListener())
        let client = RequestClient(baseURL: URL(string: "http://127.0.0.1:\(listener.port)"))
        client.maxConcurrentRequestsPerHost = 1
        // The first takes the one place that there is.
        var gate: Screen? = Screen()
        var first = Request(.get, "gate")
        first.timeout = .seconds(3600)
        client.send(first, owner: gate!, decoding: .data) { _, _ in }
        var connections = 0
        let deadline = ContinuousClock.now + .seconds(60)
        while connections == 0, ContinuousClock.now < deadline {
          connections += listener.connections()
          try await Task.sleep(for: .milliseconds(5))
        }
        #expect(connections == 1)
        let calls = Journal<Int>()
        let start = allocatedBytes()
        let clock = ContinuousClock.now
        for wave in 1...Scale.waves {
          do {
            var operations: [RequestOperation<Data>] = []
            do {
              let screens = (0..<Scale.owners).map { _ in Screen() }
              for number in 0..<Scale.wave {
                let request = Request(.get, "never?n=\(number)")
                operations.append(
                  client.send(request, owner: screens[number % Scale.owners], decoding: .data) { _, _ in calls.write(number) })
              }
              let waiting = operations
              #expect(try await eventually(within: Scale.patience) { waiting.allSatisfy(\.isExecuting) })
              let each = (allocatedBytes() - start) / Scale.wave
              print("\(Scale.wave) requests in line: \(each) bytes each")
              #expect(each < 8192)
              let threads = threads()
              print("\(Scale.wave) requests in line: \(threads) threads")
              #expect(threads < Scale.threads)
              withExtendedLifetime(screens) {}
            }
            let ended = operations
            #expect(try await eventually(within: Scale.patience) { ended.allSatisfy(\.isFinished) })
          }
          let bound = start + Scale.tables
          #expect(try await eventually(within: Scale.patience) { allocatedBytes() < bound })
          print("\(wave * Scale.wave) requests gone: \((allocatedBytes() - start) >> 10) KiB left")
        }
        let time = ContinuousClock.now - clock
        print("\(Scale.waves * Scale.wave) requests queued and gone in \(time)")
        #expect(time < Scale.patience * 5)
        // One that was about to get in line when its owner ended leaves it a moment later.
        #expect(try await eventually { client.hub.limits.waitingCount == 0 })
        withExtendedLifetime(gate) {}
        gate = nil
        // Whoever was still in line would be sent before it.
        let last = OwnerLifetime()
        client.send(Request(.get, "last"), lifetime: last, decoding: .data) { _ in }
        let hasCome = Guarded(0)
        #expect(
          try await eventually {
            hasCome.withLock { $0 += listener.connections() }
            return hasCome.withLock { $0 } > 0
          })
        #expect(hasCome.withLock { $0 } == 1)
        last.end()
        #expect(calls.entries.isEmpty)
      }
      Self.show(child)
    }

    @Test func requestsThatNoQueueHasStartedAreNeverSentAndLeaveNothingOnceTheirOwnersHaveGone() async {
      let child = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
        let listener = try #require(SilentListener())
        let client = RequestClient(baseURL: URL(string: "http://127.0.0.1:\(listener.port)"))
        let queue = OwnerScopedQueue()
        queue.isSuspended = true
        let start = allocatedBytes()
        for wave in 1...Scale.waves {
          do {
            let screens = (0..<Scale.owners).map { _ in Screen() }
            for number in 0..<Scale.wave {
              let request = Request(.get, "never?n=\(number)")
              queue.addOperation(client.operation(for: request, owner: screens[number % Scale.owners], decoding: .data))
            }
            let each = (allocatedBytes() - start) / Scale.wave
            print("\(Scale.wave) requests not started: \(each) bytes each")
            #expect(each < 4096)
            withExtendedLifetime(screens) {}
          }
          let bound = start + Scale.tables
          #expect(try await eventually(within: Scale.patience) { allocatedBytes() < bound })
          print("\(wave * Scale.wave) requests gone: \((allocatedBytes() - start) >> 10) KiB left")
        }
        queue.isSuspended = false
        await queue.finished()
        #expect(listener.connections() == 0)
      }
      Self.show(child)
    }

    /// Each has a connection, and waits for an answer.
    @Test func requestsUnderWayTakeNoThreads() async {
      let child = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
        allowOpenFiles(4096)
        let listener = try #require(SilentListener())
        let client = RequestClient(baseURL: URL(string: "http://127.0.0.1:\(listener.port)"))
        client.maxConcurrentRequestsPerHost = 500
        let lifetime = OwnerLifetime()
        let connections = Guarded(0)
        for number in 0..<500 {
          client.send(Request(.get, "under-way?n=\(number)"), lifetime: lifetime, decoding: .data) { _ in }
        }
        #expect(
          try await eventually {
            connections.withLock { $0 += listener.connections() }
            return connections.withLock { $0 } == 500
          })
        let threads = threads()
        print("500 requests under way: \(threads) threads")
        #expect(threads < Scale.threads)
        lifetime.end()
      }
      Self.show(child)
    }
  }
#endif
