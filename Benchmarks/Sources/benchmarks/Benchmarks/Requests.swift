import Foundation
import OwnedOperations
import OwnedRequests
import Synchronization

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

extension Benchmark {
  static var requests: [Benchmark] {
    [
      againstNginx("small", "HTTP against nginx on loopback: small answers, next to bare URLSession", large: 0, compareSmallRequests),
      Benchmark("P12-requests-large", "a large file, next to bare URLSession") { session in
        let size = session.pick(1_000_000_000, quick: 20_000_000)
        let server = try Nginx(large: size)
        try compareDownloads(session, size)
        withExtendedLifetime(server) {}
      },
      againstNginx("cache", "a hit in the cache, next to URLCache and URLSession", large: 0, compareCaches),
      againstNginx("end", "an owner's end with a thousand requests under way", large: 1_000_000, measureOwnersEnd),
    ]
  }

  private static func againstNginx(_ name: String, _ question: String, large: Int, _ body: @escaping (Session, Nginx) throws -> Void)
    -> Benchmark
  {
    Benchmark("P12-requests-\(name)", question) { session in
      allowOpenFiles(4096)
      let server = try Nginx(large: large)
      try body(session, server)
      withExtendedLifetime(server) {}
    }
  }

  // MARK: Small answers

  private static func compareSmallRequests(_ session: Session, _ server: Nginx) throws {
    let count = session.pick(2000, quick: 200)
    let url = server.url("small")
    for concurrency in [1, 16] {
      let client = RequestClient()
      client.maxConcurrentRequestsPerHost = concurrency
      let lifetime = OwnerLifetime()
      let configuration = URLSessionConfiguration.ephemeral
      configuration.urlCache = nil
      configuration.httpMaximumConnectionsPerHost = concurrency
      let bare = URLSession(configuration: configuration)
      try session.compare(
        "\(count.jobs) of 1 kB, \(concurrency) at a time", unit: "ns/op", count: count, pairs: session.pick(11, quick: 3),
        ours: Contender("RequestClient.send", operations: count) { try send(count, to: url, by: client, lifetime) },
        peer: Contender("URLSession.dataTask", operations: count) { try send(count, to: url, by: bare, concurrency) },
        target: .ratio(atMost: 1 / 0.95), note: "0.95 of the requests a second, or more")
      bare.invalidateAndCancel()
    }
    try compareAwaitedRequests(session, server)
  }

  private static func compareAwaitedRequests(_ session: Session, _ server: Nginx) throws {
    let count = session.pick(2000, quick: 200)
    let client = RequestClient()
    var asked = Request(.get, server.url("small").absoluteString)
    asked.coalesces = false
    let request = asked
    let configuration = URLSessionConfiguration.ephemeral
    configuration.urlCache = nil
    let bare = URLSession(configuration: configuration)
    let urlRequest = URLRequest(url: server.url("small"))
    try session.compare(
      "\(count.jobs) of 1 kB, awaited one after the other", unit: "ns/op", count: count, pairs: session.pick(11, quick: 3),
      ours: Contender("RequestClient.response(to:)", operations: count) {
        try awaited {
          for _ in 0..<count { blackHole(try await client.response(to: request, lifetime: .process, decoding: .data)) }
        }
      },
      peer: Contender("URLSession.data(for:)", operations: count) {
        try awaited {
          for _ in 0..<count { blackHole(try await bare.data(for: urlRequest)) }
        }
      }, target: .ratio(atMost: 1 / 0.95))
    bare.invalidateAndCancel()
  }

  private static func send(_ count: Int, to url: URL, by client: RequestClient, _ lifetime: OwnerLifetime) throws {
    let countdown = Countdown(from: count)
    let bytes = Sum()
    var request = Request(.get, url.absoluteString)
    request.coalesces = false
    for _ in 0..<count {
      client.send(request, lifetime: lifetime, decoding: .data) { result in
        if case .success(let response) = result { bytes.add(response.value.count) }
        countdown.countDown()
      }
    }
    countdown.wait()
    try WrongResult.check(bytes.value, is: count * 1000, "bytes")
  }

  private static func send(_ count: Int, to url: URL, by session: URLSession, _ concurrency: Int) throws {
    let window = Window(count)
    for _ in 0..<concurrency { window.next(url, session) }
    window.countdown.wait()
    try WrongResult.check(window.bytes.value, is: count * 1000, "bytes")
  }

  /// Small answers, one at a time and 16 at a time: for a look at the process as a whole. Asked of the server that the environment names,
  /// so that its start is not part of that; where none is named, of one of the probe's own.
  static var requestProbes: [Probe] {
    [(1, ""), (16, "-16")].flatMap { concurrency, suffix in
      [
        Probe("requests-ours\(suffix)") { count in
          try Nginx.named { base in
            let client = RequestClient()
            client.maxConcurrentRequestsPerHost = concurrency
            try send(count, to: base.appendingPathComponent("small"), by: client, OwnerLifetime())
          }
        },
        Probe("requests-bare\(suffix)") { count in
          try Nginx.named { base in
            let configuration = URLSessionConfiguration.ephemeral
            configuration.urlCache = nil
            configuration.httpMaximumConnectionsPerHost = concurrency
            try send(count, to: base.appendingPathComponent("small"), by: URLSession(configuration: configuration), concurrency)
          }
        },
      ]
    }
  }

  /// Tasks of a bare session, so many at a time: each that ends begins the next.
  private final class Window: Sendable {
    let countdown: Countdown
    let bytes = Sum()
    private let left: Sum

    init(_ count: Int) {
      countdown = Countdown(from: count)
      left = Sum(count)
    }

    func next(_ url: URL, _ session: URLSession) {
      guard left.add(-1) >= 0 else { return }
      session.dataTask(with: url) { [self] data, _, _ in
        bytes.add(data?.count ?? 0)
        next(url, session)
        countdown.countDown()
      }.resume()
    }
  }

  // MARK: A large file

  private static func compareDownloads(_ session: Session, _ size: Int) throws {
    var ours: [DownloadCost] = []
    var bare: [DownloadCost] = []
    for pair in 0...session.pick(7, quick: 1) {
      if pair % 2 == 0 { ours.append(try ProbeProcess.download("download-ours", count: size)) }
      bare.append(try ProbeProcess.download("download-bare", count: size))
      if pair % 2 == 1 { ours.append(try ProbeProcess.download("download-ours", count: size)) }
    }
    // The first of each doesn't count.
    let workload = "a file of \(size / 1_000_000) MB"
    session.record(
      workload, unit: "s", count: 1, ours: "RequestClient.download", ours.dropFirst().map(\.seconds), peer: "URLSession.downloadTask",
      bare.dropFirst().map(\.seconds), target: .ratio(atMost: 1.1))
    session.record(
      "\(workload), peak memory", unit: "MB", count: 1, ours: "RequestClient.download", ours.dropFirst().map { $0.peakMemory / 1e6 },
      peer: "URLSession.downloadTask", bare.dropFirst().map { $0.peakMemory / 1e6 }, target: .ours(atMost: 64))
  }

  // MARK: The cache

  private static func compareCaches(_ session: Session, _ server: Nginx) throws {
    let count = session.pick(100_000, quick: 2000)
    let cache = try ResponseCache(directory: nil, memoryLimit: 10_000_000, diskLimit: 0)
    let client = RequestClient(cache: cache)
    var request = Request(.get, server.url("small").absoluteString)
    request.cache = .forTime(.seconds(3600))
    let filled = Countdown(from: 1)
    client.send(request, lifetime: .process, decoding: .data) { _ in filled.countDown() }
    filled.wait()
    let urlRequest = try request.urlRequest(relativeTo: nil)
    try WrongResult.check(cache.response(to: urlRequest)?.value.count ?? -1, is: 1000, "bytes in the cache")

    let urlCache = URLCache(memoryCapacity: 10_000_000, diskCapacity: 0, diskPath: nil)
    guard let url = urlRequest.url, let answer = HTTPURLResponse(url: url, statusCode: 200, httpVersion: "HTTP/1.1", headerFields: nil)
    else {
      throw WrongResult(description: "no answer can be made")
    }
    urlCache.storeCachedResponse(CachedURLResponse(response: answer, data: Data(repeating: 120, count: 1000)), for: urlRequest)
    try session.compare(
      "a hit in memory, looked up", count: count,
      ours: Contender("ResponseCache.response(to:)", operations: count) {
        for _ in 0..<count { blackHole(cache.response(to: urlRequest)) }
      },
      peer: Contender("URLCache.cachedResponse(for:)", operations: count) {
        for _ in 0..<count { blackHole(urlCache.cachedResponse(for: urlRequest)) }
      })

    let sends = session.pick(5000, quick: 200)
    let configuration = URLSessionConfiguration.ephemeral
    configuration.urlCache = urlCache
    configuration.requestCachePolicy = .returnCacheDataElseLoad
    let bare = URLSession(configuration: configuration)
    let asked = request
    try session.compare(
      "a hit in memory, asked for one after the other", count: sends,
      ours: Contender("RequestClient.send", operations: sends) {
        for _ in 0..<sends {
          let isOver = DispatchSemaphore(value: 0)
          client.send(asked, lifetime: .process, decoding: .data) { _ in isOver.signal() }
          isOver.wait()
        }
      },
      peer: Contender("URLSession.dataTask", operations: sends) {
        for _ in 0..<sends {
          let isOver = DispatchSemaphore(value: 0)
          bare.dataTask(with: urlRequest) { _, _, _ in isOver.signal() }.resume()
          isOver.wait()
        }
      })
    try compareHitsOfTasks(session, client, asked, bare, urlRequest)
    bare.invalidateAndCancel()
  }

  private static func compareHitsOfTasks(
    _ session: Session, _ client: RequestClient, _ request: Request, _ bare: URLSession, _ urlRequest: URLRequest
  ) throws {
    let (hits, peerHits) = (session.pick(50_000, quick: 1000), session.pick(2000, quick: 200))
    let workload = "a hit in memory, awaited by a task"
    let ours = Contender("RequestClient.response(to:)", operations: hits) {
      try awaited {
        for _ in 0..<hits { blackHole(try await client.response(to: request, lifetime: .process, decoding: .data)) }
      }
    }
    try session.compare(
      workload, count: hits, ours: ours,
      peer: Contender("URLSession.data(for:)", operations: peerHits) {
        try awaited {
          for _ in 0..<peerHits { blackHole(try await bare.data(for: urlRequest)) }
        }
      }, target: .ratio(atMost: 1 / 20.0))
    try session.measure("the same", unit: "ns/op", count: hits, ours: ours, target: .ours(atMost: 5000))
  }

  /// Runs a body in a task, and waits on this thread, which is none of the tasks'.
  static func awaited(_ body: @escaping @Sendable () async throws -> Void) throws {
    let end = TaskEnd()
    Task.detached {
      do { try await body() } catch { end.error.withLock { $0 = error } }
      end.hasCome.signal()
    }
    end.hasCome.wait()
    if let error = end.error.withLock({ $0 }) { throw error }
  }

  private final class TaskEnd: Sendable {
    let hasCome = DispatchSemaphore(value: 0)
    let error = Mutex<(any Error)?>(nil)
  }

  // MARK: An owner's end

  private static func measureOwnersEnd(_ session: Session, _ server: Nginx) throws {
    let count = session.pick(1000, quick: 50)
    var times: [Double] = []
    for sample in 0...session.pick(7, quick: 1) {
      let client = RequestClient()
      client.maxConcurrentRequestsPerHost = count
      let lifetime = OwnerLifetime()
      let begun = Countdown(from: count)
      var request = Request(.get, server.url("slow").absoluteString)
      request.coalesces = false
      let operations = (0..<count).map { _ in client.send(request, lifetime: lifetime, decoding: .data) { _ in } }
      for operation in operations {
        Task {
          for await progress in operation.progress where progress.bytesReceived > 0 { break }
          begun.countDown()
        }
      }
      begun.wait()
      try WrongResult.check(operations.count { $0.isExecuting }, is: count, "requests under way")
      let time = nanoseconds { lifetime.end() }
      if sample > 0 { times.append(time / 1000) }
      let over = Countdown(from: count)
      for operation in operations {
        Task {
          await operation.finished()
          over.countDown()
        }
      }
      over.wait()
    }
    session.record(
      "\(count.jobs) under way, the owner ends", unit: "us", count: count, ours: "end() on the caller's thread", times,
      target: .ours(atMost: 100))
  }

  /// Connections are files, and 1,024 are a common limit.
  private static func allowOpenFiles(_ count: Int) {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0, limit.rlim_cur < rlim_t(count) else { return }
    limit.rlim_cur = min(limit.rlim_max, rlim_t(count))
    _ = setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
  }
}

/// A number that threads add to.
private final class Sum: Sendable {
  private let total: Atomic<Int>

  init(_ value: Int = 0) { total = Atomic(value) }

  @discardableResult
  func add(_ value: Int) -> Int { total.add(value, ordering: .relaxed).newValue }

  var value: Int { total.load(ordering: .relaxed) }
}
