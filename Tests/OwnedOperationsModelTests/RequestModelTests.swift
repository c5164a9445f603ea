import Foundation
import Testing

@testable import OwnedOperations
@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// Requests whose owners end, or that are cancelled, in one state after the other: each is over once, its handler hears of it as it
/// should, nothing goes on for nobody, and no turn is lost.
@Suite(.serialized) struct RequestModelTests {
  private typealias Outcome = Result<Response<Data>, RequestError>

  private final class Asker: @unchecked Sendable {  // the baton holder's
    let name: String
    let lifetime = OwnerLifetime()
    var operation: RequestOperation<Data>!
    /// What its handler was called with.
    var heard: [Outcome] = [] { didSet { ModelRun.note(book) } }
    private let book = ModelObject("asker")

    init(_ name: String) { self.name = name }
  }

  /// A client, the server, and what runs the client's handlers, timers and work in the background.
  private final class Scene: @unchecked Sendable {  // the baton holder's, but for what is guarded
    let run: ModelRun
    private let blocks = Guarded<[@Sendable () -> Void]>([])
    private let handlers = Guarded<[@Sendable () -> Void]>([])
    private let timers = Guarded<[OneShotTimer.Call]>([])
    private let open = Guarded<[SessionTask]>([])
    private let cache: ResponseCache?
    private(set) var client: RequestClient!
    private(set) var askers: [Asker] = []
    private static let address = "http://host/news"

    init(_ run: ModelRun, cache: ResponseCache? = nil) {
      self.run = run
      self.cache = cache
      let limits = HostLimits(limit: 1) { [blocks] block in blocks.withLock { $0.append(block) } }
      client = RequestClient(
        session: TransferSession { [open] task in open.withLock { $0.append(task) } }, limits: limits, cache: cache,
        background: { [blocks] block in blocks.withLock { $0.append(block) } },
        timers: { [timers] call in timers.withLock { $0.append(call) } })
    }

    /// Has the cache know an answer.
    func fillCache() {
      guard let url = URL(string: Self.address) else { return }
      let head = ResponseHead(status: 200, headers: [:], url: url)
      cache?.store(CachedResponse(head: head, body: Data([0]), storedAt: Date()), for: TransferKey(URLRequest(url: url)))
    }

    /// Somebody whose request has yet to begin.
    func asker(_ name: String, _ configure: (inout Request) -> Void = { _ in }) -> Asker {
      let asker = Asker(name)
      askers.append(asker)
      var request = Request(.get, Self.address)
      configure(&request)
      asker.operation = RequestOperation(
        request, client: client, lifetime: asker.lifetime, decoding: .data, handler: calls(of: asker))
      return asker
    }

    /// Made as a queue makes them.
    private func calls(of asker: Asker) -> HandlerCalls<Outcome> {
      HandlerCalls(lifetime: asker.lifetime) { [handlers, lifetime = asker.lifetime, unowned asker] take, whenOver in
        handlers.withLock {
          $0.append {
            guard lifetime.isAlive else { return }
            if let outcome = take() { asker.heard.append(outcome) }
            whenOver()
          }
        }
        return true
      }
    }

    /// Somebody whose download has yet to begin.
    func downloader(_ name: String, to file: URL) -> Asker {
      let asker = Asker(name)
      askers.append(asker)
      asker.operation = RequestOperation(
        Request(.get, Self.address), client: client, lifetime: asker.lifetime, decoding: .data,
        download: DownloadFile(file, DownloadExpectation()), handler: calls(of: asker))
      return asker
    }

    func begin(_ name: String, _ configure: (inout Request) -> Void = { _ in }) -> Asker {
      let asker = asker(name, configure)
      asker.operation.start()
      return asker
    }

    /// What the reaper does when the end has been handed over to it is done here: as a thread of the background it would be explored by
    /// random schedules only. Who cancels after the end has the end for a reason.
    func end(_ asker: Asker) {
      asker.lifetime.end()
      asker.operation.cancel()
    }

    // MARK: Surroundings

    private static func runAll(_ blocks: Guarded<[@Sendable () -> Void]>) {
      while let block = blocks.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { block() }
    }

    func runBlocks() { Self.runAll(blocks) }
    func runHandlers() { Self.runAll(handlers) }

    /// Of those that there are, the shortest: of a wait between attempts, or else of a limit.
    func reachNextTimer() {
      let next = timers.withLock { $0.filter(\.isSet).min { $0.delay < $1.delay } }
      next?.make()
    }

    func answerOne(status: Int = 200) {
      guard let task = open.withLock({ $0.isEmpty ? nil : $0.removeFirst() }), let url = URL(string: Self.address) else { return }
      task.receiver?.taskDidReceive(ResponseHead(status: status, headers: [:], url: url))
      task.receiver?.taskDidReceive(Data([1]))
      task.takeReceiver()?.taskDidComplete(nil)
    }

    // MARK: Expectations

    /// Nothing more is done by threads of the scenario.
    func expectAllIsOver() {
      LifetimeReaper.waitUntilIdle()
      for _ in 0..<2 {
        runBlocks()
        runHandlers()
      }
      for asker in askers { expectOver(asker) }
      run.expect(open.withLock { $0 }.allSatisfy { $0.receiver == nil }, "a transfer goes on for nobody")
      run.expect(timers.withLock { $0 }.allSatisfy { !$0.isSet }, "a timer goes on for nobody")
      let last = begin("last")
      for _ in 0..<4 {
        runBlocks()
        answerOne()
        runHandlers()
      }
      expectOver(last)
      run.expect(last.operation.response != nil, "the turn was lost")
    }

    private func expectOver(_ asker: Asker) {
      let heard = asker.heard.filter { (try? $0.get().source) != .cache }
      let (outcome, result) = (asker.operation.outcome, asker.operation.result)
      let said = "\(asker.name): \(String(describing: outcome)), \(String(describing: result)), heard \(asker.heard)"
      switch (outcome, result) {
      case (.succeeded?, .success?), (.failed?, .failure?), (.cancelled(.requested)?, .failure(.cancelled(.requested))?):
        // Who has ended since hears of nothing.
        run.expect(heard.count == 1 || !asker.lifetime.isAlive && asker.heard.isEmpty, said)
      case (.cancelled(.ownerEnded)?, .failure(.cancelled(.ownerEnded))?): run.expect(heard.isEmpty, said)
      default: run.expect(false, said)
      }
    }
  }

  private static func explore(
    _ name: String, preemptions: Int = 2, deeper: Int? = ModelExplorer.someDeeper, _ location: SourceLocation = #_sourceLocation,
    _ scenario: @escaping @Sendable (ModelRun) -> Void
  ) {
    OperationReport.listen { _ in }
    defer { OperationReport.listen(nil) }
    ModelExplorer("requests: \(name)").expectNothing(preemptions: preemptions, deeper: deeper, location, scenario)
  }

  @Test func theOwnerEndsWhileTheRequestBegins() {
    Self.explore("start | end") { run in
      let scene = Scene(run)
      let asker = scene.asker("asker")
      run.concurrently(("start", { asker.operation.start() }), ("owner", { scene.end(asker) }))
      scene.expectAllIsOver()
    }
  }

  /// The transfer goes on for another, and ends with that.
  @Test func theOwnerEndsWhileTheRequestJoinsATransfer() {
    Self.explore("start beside another | end") { run in
      let scene = Scene(run)
      let (other, asker) = (scene.begin("other"), scene.asker("asker"))
      run.concurrently(("start", { asker.operation.start() }), ("owner", { scene.end(asker) }))
      LifetimeReaper.waitUntilIdle()
      other.operation.cancel()
      scene.expectAllIsOver()
    }
  }

  @Test func theOwnerEndsWhileTheAnswerComes() {
    Self.explore("end | answer, blocks") { run in
      let scene = Scene(run)
      let asker = scene.begin("asker")
      run.concurrently(
        ("owner", { scene.end(asker) }),
        (
          "server",
          {
            scene.answerOne()
            scene.runBlocks()
          }
        ))
      scene.expectAllIsOver()
    }
  }

  @Test func theOwnerEndsWhileTheHandlerIsAboutToBegin() {
    Self.explore("end | blocks | handlers") { run in
      let scene = Scene(run)
      let asker = scene.begin("asker")
      scene.answerOne()
      run.concurrently(
        ("owner", { scene.end(asker) }), ("background", { scene.runBlocks() }), ("handlers", { scene.runHandlers() }))
      scene.expectAllIsOver()
    }
  }

  /// The next attempt would join a transfer that goes on for another.
  @Test func theOwnerEndsWhenTheTimeUntilTheNextAttemptIsUp() {
    Self.explore("end | timer, blocks") { run in
      let scene = Scene(run)
      let asker = scene.begin("asker") { $0.retry = .exponential(attempts: 3, base: .milliseconds(1)) }
      scene.answerOne(status: 503)
      let other = scene.begin("other")
      run.concurrently(
        ("owner", { scene.end(asker) }),
        (
          "timer",
          {
            scene.reachNextTimer()
            scene.runBlocks()
          }
        ))
      LifetimeReaper.waitUntilIdle()
      other.operation.cancel()
      scene.expectAllIsOver()
    }
  }

  @Test func theRequestIsCancelledWhileTheAnswerComesForOthersToo() {
    Self.explore("cancel | answer, blocks | start") { run in
      let scene = Scene(run)
      let (cancelled, other, late) = (scene.begin("cancelled"), scene.begin("other"), scene.asker("late"))
      run.concurrently(
        ("cancel", { cancelled.operation.cancel() }),
        (
          "server",
          {
            scene.answerOne()
            scene.runBlocks()
          }
        ), ("start", { late.operation.start() }))
      scene.runBlocks()
      scene.answerOne()
      scene.expectAllIsOver()
      run.expect(other.operation.response != nil && late.operation.response != nil, "the cancellation took others along")
    }
  }

  @Test func theTimeIsUpWhileTheAnswerComesAndTheOwnerEnds() {
    Self.explore("timer, blocks | answer, blocks | end", preemptions: 1, deeper: nil) { run in
      let scene = Scene(run)
      let asker = scene.begin("asker")
      run.concurrently(
        (
          "timer",
          {
            scene.reachNextTimer()
            scene.runBlocks()
          }
        ),
        (
          "server",
          {
            scene.answerOne()
            scene.runBlocks()
          }
        ), ("owner", { scene.end(asker) }))
      scene.expectAllIsOver()
    }
  }

  /// The time until the next look is up before it is known that there will be one.
  @Test func theFileOfADownloadIsLookedAtAgainUntilItIsFree() {
    Self.explore("start | timer, blocks") { run in
      let scene = Scene(run)
      let file = FileManager.default.temporaryDirectory.appendingPathComponent("owned-requests-model-\(UUID())")
      defer { try? FileManager.default.removeItem(at: file) }
      var other = DownloadTargets.shared.reserve(file)
      let asker = scene.downloader("asker", to: file)
      run.concurrently(
        ("start", { asker.operation.start() }),
        (
          "timer",
          {
            scene.reachNextTimer()
            scene.runBlocks()
          }
        ))
      run.expect(other != nil && !asker.operation.isFinished, "the file is another's")
      other = nil
      scene.reachNextTimer()
      scene.runBlocks()
      scene.answerOne()
      scene.expectAllIsOver()
      run.expect(asker.operation.response != nil, "nobody looked again")
    }
  }

  /// What the cache has is not shown any more once the handler knows of the cancellation.
  @Test func theRequestIsCancelledWhileTheCacheShowsSomething() {
    Self.explore("start | cancel | handlers") { run in
      guard let cache = try? ResponseCache(directory: nil, memoryLimit: 1_000_000, diskLimit: 0) else { return }
      let scene = Scene(run, cache: cache)
      scene.fillCache()
      let asker = scene.asker("asker") { $0.cache = .cachedThenFresh }
      run.concurrently(
        ("start", { asker.operation.start() }), ("cancel", { asker.operation.cancel() }), ("handlers", { scene.runHandlers() }))
      scene.expectAllIsOver()
      run.expect((try? asker.heard.last?.get()) == nil, "the cached came after the end")
    }
  }
}
