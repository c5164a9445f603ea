import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

/// The server of the tests, one for all of them.
final class LoopbackServer: Sendable {
  /// Nil where there is no Python.
  static let shared: LoopbackServer? = {
    do { return try LoopbackServer() } catch {
      print("notice: tests against a server are skipped: python3 can't be started (\(error))")
      return nil
    }
  }()

  static var isThere: Bool { shared != nil }

  let base: URL
  /// Another origin.
  let other: URL
  // Kept so that the server lives as long as the process: it goes when its input ends.
  private let process: Process
  private let input: Pipe

  private struct NoPorts: Error {}

  private init() throws {
    let script = FileManager.default.temporaryDirectory.appendingPathComponent("owned-requests-server-\(UUID().uuidString).py")
    try Data(serverScript.utf8).write(to: script)
    defer { try? FileManager.default.removeItem(at: script) }
    process = Process()
    input = Pipe()
    let output = Pipe()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["python3", script.path]
    process.standardInput = input
    process.standardOutput = output
    try process.run()
    var line = Data()
    while !line.contains(UInt8(ascii: "\n")) {
      let data = output.fileHandleForReading.availableData
      guard !data.isEmpty else { throw NoPorts() }
      line += data
    }
    let ports = String(decoding: line, as: UTF8.self).split(whereSeparator: \.isWhitespace)
    guard ports.count == 2, let base = URL(string: "http://127.0.0.1:\(ports[0])"), let other = URL(string: "http://127.0.0.1:\(ports[1])")
    else {
      throw NoPorts()
    }
    self.base = base
    self.other = other
  }

  func client(_ configure: (RequestClient) -> Void = { _ in }) -> RequestClient {
    let client = RequestClient(baseURL: base)
    configure(client)
    return client
  }

  /// Asked by a client of its own, so that no limit of the test's is in the way.
  private static let controls: RequestClient = {
    let client = RequestClient()
    client.maxConcurrentRequestsPerHost = 64
    return client
  }()

  private func ask(_ path: String, _ query: [String: ParameterValue]) async throws -> Int {
    var request = Request(.get, path, parameters: .form(query))
    request.coalesces = false
    // Longer than the server waits for a counter.
    request.timeout = .seconds(300)
    request.url = base.absoluteString + path
    let response = try await Self.controls.response(to: request, lifetime: OwnerLifetime(), decoding: .string)
    return Int(response.value) ?? -1
  }

  enum Counter: String { case closed, count, open, most, sent }

  /// Returns when the server has seen as many.
  func reaches(_ counter: Counter, of id: String, _ number: Int) async throws {
    _ = try await ask("/await", ["what": .string(counter.rawValue), "of": .string(id), "n": .integer(number)])
  }

  func tell(_ counter: Counter, of id: String) async throws -> Int {
    try await ask("/tell", ["what": .string(counter.rawValue), "of": .string(id)])
  }

  func release(_ id: String) async throws { _ = try await ask("/release", ["of": .string(id)]) }
}

/// What `/bytes` has of a version, "1" or "2", in that length.
func content(_ version: String, _ length: Int) -> Data {
  let digest = Data(SHA256.digest(of: Data(version.utf8)))
  return (0...length / 32).reduce(into: Data()) { data, _ in data += digest }.prefix(length)
}

/// What `/echo` says.
struct Echo: Decodable, Sendable {
  let method: String
  let query: String
  let headers: [String: String]
  let length: Int
  let sha256: String
  let body: String
  let count: Int
}

final class Screen: OperationOwner, Sendable {
  let lifetimeToken = OwnerLifetime.Token(name: "screen")
}

/// What happened, from any thread.
final class Journal<Entry: Sendable>: Sendable {
  private let written = Guarded<[Entry]>([])

  func write(_ entry: Entry) { written.withLock { $0.append(entry) } }
  var entries: [Entry] { written.withLock { $0 } }

  /// Returns when there are as many entries, or after a minute.
  func reaches(_ count: Int) async throws {
    let deadline = ContinuousClock.now + .seconds(60)
    while entries.count < count, ContinuousClock.now < deadline { try await Task.sleep(for: .milliseconds(5)) }
  }
}

/// Returns when it is true, or after a minute.
func eventually(within limit: Duration = .seconds(60), _ condition: @Sendable () async -> Bool) async throws -> Bool {
  let deadline = ContinuousClock.now + limit
  while ContinuousClock.now < deadline {
    if await condition() { return true }
    try await Task.sleep(for: .milliseconds(5))
  }
  return false
}

/// Whether it returns, on a thread that may be lost otherwise.
func returns(_ body: @escaping @Sendable () -> Void) async throws -> Bool {
  let hasReturned = Guarded(false)
  Thread.detachNewThread {
    body()
    hasReturned.withLock { $0 = true }
  }
  return try await soon { hasReturned.withLock { $0 } }
}

/// Whether it is true before long, on a machine that does much else, too. That is less than the minute that a request's limits of time have
/// by default: what should have ended otherwise is not yet ended by those.
func soon(_ condition: @Sendable () -> Bool) async throws -> Bool {
  let deadline = ContinuousClock.now + .seconds(45)
  while !condition(), ContinuousClock.now < deadline { try await Task.sleep(for: .milliseconds(2)) }
  return condition()
}

/// Keeps threads waiting until it is opened.
final class Gate: Sendable {
  private let condition = NSCondition()
  // Touched under `condition` only.
  nonisolated(unsafe) private var isOpen = false

  func wait() {
    condition.withLock {
      while !isOpen { condition.wait() }
    }
  }

  func open() {
    condition.withLock {
      isOpen = true
      condition.broadcast()
    }
  }
}

/// No timer of the client's goes off while it is there: a limit of time is reached when what the test waits for has come, and not before,
/// however slow the machine is.
final class HeldTimers: Sendable {
  private let gate = Gate()

  /// Returns when none goes off any more.
  init() async {
    await withCheckedContinuation { [gate] continuation in
      _ = TimerLine.shared.add(deadline: .now()) {
        continuation.resume()
        gate.wait()
      }
    }
  }

  deinit { goOn() }

  /// Those that are due go off now.
  func goOn() { gate.open() }
}

/// The error that the body throws.
func failure(_ body: () async throws -> Void) async -> RequestError? {
  do {
    try await body()
    return nil
  } catch {
    return error as? RequestError
  }
}
