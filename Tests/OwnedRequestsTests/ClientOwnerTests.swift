import Foundation
import Testing

@testable import OwnedOperations
@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// Tells when it goes, with the closure that holds it.
private final class Probe: Sendable {
  private let released: Journal<Bool>
  init(_ released: Journal<Bool>) { self.released = released }
  deinit { released.write(true) }
}

@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct ClientOwnerTests {
  private let server = LoopbackServer.shared!

  // MARK: Handlers

  @Test func aHandlerRunsOnceWithItsOwnerOnItsQueueAndIsReleased() async throws {
    let screen = Screen()
    let queue = OwnerScopedQueue(name: "callbacks")
    let calls = Journal<String>()
    let released = Journal<Bool>()
    let operation: RequestOperation<String>
    do {
      let captured = Probe(released)
      operation = server.client().send(
        Request(.get, "status?status=200&body=hello"), owner: screen, decoding: .string, on: queue
      ) { [unowned screen] owner, result in
        let isHome = owner === screen && OwnerScopedQueue.current === queue
        withExtendedLifetime(captured) { calls.write("\(isHome) \((try? result.get().value) ?? "")") }
      }
    }
    try await calls.reaches(1)
    #expect(calls.entries == ["true hello"])
    try await released.reaches(1)
    #expect(released.entries.count == 1)
    #expect(operation.response?.value == "hello")
    #expect(calls.entries.count == 1)
  }

  /// By hand, when its turn has come: nothing is sent, and who waits hears of it.
  /// What a handler finds, and nobody else holds.
  private struct Surroundings {
    var client: RequestClient
    var queue: OwnerScopedQueue
    var owner: Screen
  }

  @Test(arguments: [true, false]) func aHandlerMayLetGoOfItsClientItsQueueAndItsOwner(isSerial: Bool) async throws {
    weak var client: RequestClient?
    weak var queue: OwnerScopedQueue?
    weak var owner: Screen?
    let calls = Journal<Bool>()
    do {
      let handlers = OwnerScopedQueue(name: "handlers")
      if isSerial { handlers.underlyingQueue = DispatchQueue(label: "serial") }
      let all = Surroundings(client: RequestClient(baseURL: server.base, queue: handlers), queue: handlers, owner: Screen())
      (client, queue, owner) = (all.client, all.queue, all.owner)
      let kept = Guarded<Surroundings?>(all)
      all.client.send(Request(.get, "held?id=let-go-\(isSerial)"), owner: all.owner, decoding: .data) { _, result in
        var former: Surroundings?
        kept.withLock { swap(&former, &$0) }
        calls.write((try? result.get()) != nil)
      }
    }
    #expect(client != nil && queue != nil && owner != nil)
    try await server.release("let-go-\(isSerial)")
    let deadline = ContinuousClock.now + .seconds(60)
    while client != nil || queue != nil || owner != nil, ContinuousClock.now < deadline { try await Task.sleep(for: .milliseconds(5)) }
    #expect(client == nil && queue == nil && owner == nil)
    #expect(calls.entries == [true])
  }

  @Test func aRequestThatIsFinishedBeforeItBeginsIsCancelled() async throws {
    let operation = server.client().operation(for: Request(.get, "hang?id=finished"), lifetime: OwnerLifetime(), decoding: .data)
    let observation = operation.observe(\.isExecuting) { operation, change in
      if change.newValue == true { operation.finish() }
    }
    OwnerScopedQueue().addOperation(operation)
    await #expect(throws: RequestError.self) { try await operation.value }
    guard case .failure(.cancelled(.requested))? = operation.result else {
      Issue.record("\(String(describing: operation.result))")
      return
    }
    #expect(operation.isFinished)
    withExtendedLifetime(observation) {}
  }

  @Test func everyOutcomeButTheOwnersEndCallsTheHandler() async throws {
    let screen = Screen()
    let client = server.client()
    let calls = Journal<String>()
    var slow = Request(.get, "hang?id=outcomes")
    slow.timeout = .milliseconds(100)
    for request in [Request(.get, "status?status=404"), Request(.get, "not a url"), Request(.get, "http://127.0.0.1:1/"), slow] {
      client.send(request, owner: screen, decoding: .data) { _, result in
        if case .failure(let error) = result { calls.write(String("\(error)".prefix(11))) }
      }
    }
    let cancelled = client.send(Request(.get, "hang?id=cancelled"), owner: screen, decoding: .data) { _, result in
      if case .failure(.cancelled(.requested)) = result { calls.write("cancelled") }
    }
    try await server.reaches(.open, of: "cancelled", 1)
    cancelled.cancel()
    try await calls.reaches(5)
    #expect(calls.entries.count == 5)
    #expect(calls.entries.contains("cancelled") && calls.entries.contains("the request"))
    try await server.reaches(.closed, of: "cancelled", 1)
  }

  // MARK: The end of an owner

  @Test(arguments: ["hang", "drip"])
  func theEndOfAnOwnerStopsItsTransferAndItsHandler(path: String) async throws {
    let id = "owner-\(path)"
    var screen: Screen? = Screen()
    let calls = Journal<Int>()
    let released = Journal<Bool>()
    let operation: RequestOperation<Data>
    do {
      let captured = Probe(released)
      operation = server.client().send(Request(.get, "\(path)?id=\(id)"), owner: screen!, decoding: .data) { _, _ in
        withExtendedLifetime(captured) { calls.write(1) }
      }
    }
    try await server.reaches(.open, of: id, 1)
    screen = nil
    try await server.reaches(.closed, of: id, 1)
    try await released.reaches(1)
    #expect(released.entries.count == 1)
    _ = try await eventually { operation.isFinished }
    guard case .cancelled(.ownerEnded(operation.ownerID))? = operation.outcome else {
      Issue.record("\(String(describing: operation.outcome))")
      return
    }
    #expect(calls.entries.isEmpty)
  }

  @Test func nothingIsSentForAnOwnerThatHasEnded() async throws {
    let screen = Screen()
    screen.lifetime.end()
    let calls = Journal<Int>()
    let client = server.client()
    let operation = client.send(Request(.get, "echo?id=dead"), owner: screen, decoding: .data) { _, _ in calls.write(1) }
    #expect(operation.isFinished)
    guard case .cancelled(.ownerEnded) = await failure({ _ = try await operation.value }) else {
      Issue.record("\(String(describing: operation.result))")
      return
    }
    #expect(try await server.tell(.count, of: "dead") == 0)
    #expect(calls.entries.isEmpty)
  }

  @Test func aHandlerThatHasNotBegunNeverRunsAfterTheEnd() async throws {
    let screen = Screen()
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    let calls = Journal<Int>()
    let operation = server.client().send(Request(.get, "echo"), owner: screen, decoding: .data, on: queue) { _, _ in calls.write(1) }
    _ = try await operation.value
    screen.lifetime.end()
    queue.isSuspended = false
    await queue.finished(ownedBy: screen.lifetime)
    #expect(calls.entries.isEmpty)
  }

  @Test func theEndOfAnOwnerEndsWaitsBetweenAttempts() async throws {
    let lifetime = OwnerLifetime()
    var request = Request(.get, #"flaky?id=end-retry&failures=9&headers=%7B%22Retry-After%22:%2230%22%7D"#)
    request.retry = .exponential(attempts: 9)
    let operation = server.client().send(request, lifetime: lifetime, decoding: .data) { _ in }
    try await server.reaches(.count, of: "end-retry", 1)
    lifetime.end()
    guard case .cancelled(.ownerEnded) = await failure({ _ = try await operation.value }) else {
      Issue.record("\(String(describing: operation.result))")
      return
    }
    #expect(try await server.tell(.count, of: "end-retry") == 1)
  }

  private struct Endless: RequestInterceptor {
    let begun = Journal<Bool>()
    let ended = Journal<Bool>()
    func adapt(_ request: URLRequest) async throws -> URLRequest {
      begun.write(true)
      do { try await Task.sleep(for: .seconds(600)) } catch { ended.write(Task.isCancelled) }
      return request
    }
  }

  @Test func theEndOfAnOwnerCancelsItsInterceptors() async throws {
    let lifetime = OwnerLifetime()
    let endless = Endless()
    let client = server.client { $0.interceptors = [endless] }
    let operation = client.send(Request(.get, "echo?id=end-adapt"), lifetime: lifetime, decoding: .data) { _ in }
    // A request that has not come to its interceptors when its owner ends never asks them.
    try await endless.begun.reaches(1)
    #expect(!operation.isFinished)
    lifetime.end()
    try await endless.ended.reaches(1)
    #expect(endless.ended.entries == [true])
    #expect(try await server.tell(.count, of: "end-adapt") == 0)
  }

  @Test func aThousandRequestsUnderWayStopWithTheirOwner() async throws {
    // libcurl's work grows with the square of a session's transfers: for a thousand of one session up to a minute.
    let count = 1000
    allowOpenFiles(4096)
    let clients = (0..<8).map { _ in server.client { $0.maxConcurrentRequestsPerHost = count } }
    var screen: Screen? = Screen()
    let calls = Journal<Int>()
    var operations: [RequestOperation<Data>] = []
    for number in 0..<count {
      var request = Request(.get, "hang?id=thousand&n=\(number)")
      // However long it takes until all are there.
      request.timeout = .seconds(600)
      operations.append(clients[number % clients.count].send(request, owner: screen!, decoding: .data) { _, _ in calls.write(number) })
    }
    try await server.reaches(.open, of: "thousand", count)
    let lifetime = screen!.lifetime
    // Whoever tells the first of the end waits. So an end that tells its requests itself does not return.
    let gate = Gate()
    defer { gate.open() }
    let observation = operations[0].observe(\.isCancelled) { _, _ in gate.wait() }
    let last = Guarded<Screen?>(screen)
    screen = nil
    let hasReturned = try await returns {
      var former: Screen?
      last.withLock { swap(&former, &$0) }
    }
    #expect(hasReturned)
    gate.open()
    #expect(!lifetime.isAlive)
    try await server.reaches(.closed, of: "thousand", count)
    #expect(calls.entries.isEmpty)
    withExtendedLifetime(observation) {}
  }

  @Test func requestsThatWaitForTheirTurnAreNeverSentOnceTheirOwnersHaveGone() async throws {
    let client = server.client { $0.maxConcurrentRequestsPerHost = 1 }
    let gate = OwnerLifetime()
    var held = Request(.get, "held?id=queued-gate")
    // However long it takes until the others have come and gone.
    held.timeout = .seconds(600)
    let first = client.send(held, lifetime: gate, decoding: .data) { _ in }
    try await server.reaches(.open, of: "queued-gate", 1)
    let calls = Journal<Int>()
    let operations = Journal<RequestOperation<Data>>()
    do {
      let screens = (0..<100).map { _ in Screen() }
      for number in 0..<5000 {
        let request = Request(.get, "echo?id=queued&n=\(number)")
        operations.write(client.send(request, owner: screens[number % 100], decoding: .data) { _, _ in calls.write(number) })
      }
    }
    #expect(try await eventually { operations.entries.allSatisfy(\.isFinished) })
    try await server.release("queued-gate")
    _ = try await first.value
    _ = try await client.response(to: Request(.get, "echo"), lifetime: gate, decoding: .data)
    #expect(try await server.tell(.count, of: "queued") == 0)
    #expect(calls.entries.isEmpty)
  }

  // MARK: The process's lifetime

  @Test func aRequestOfTheProcessOutlivesWhoeverSentIt() async throws {
    let calls = Journal<String>()
    var screen: Screen? = Screen()
    var client: RequestClient? = server.client()
    client!.send(Request(.get, "held?id=process-screen"), owner: screen!, decoding: .string) { _, _ in calls.write("screen") }
    let report = Request(.post, "held?id=process&body=kept")
    client!.send(report, lifetime: .process, decoding: .string) { calls.write((try? $0.get().value) ?? "failed") }
    try await server.reaches(.open, of: "process-screen", 1)
    try await server.reaches(.open, of: "process", 1)
    screen = nil
    client = nil
    try await server.release("process")
    try await calls.reaches(1)
    #expect(calls.entries == ["kept"])
    try await server.release("process-screen")
  }

  @Test func requestsOfTheProcessAreCancelledByThemselvesOrPerClient() async throws {
    let (client, other) = (server.client(), server.client())
    let calls = Journal<String>()
    let note: @Sendable (Result<Response<String>, RequestError>) -> Void = { calls.write((try? $0.get().value) ?? "cancelled") }
    client.send(Request(.get, "hang?id=process-mine"), lifetime: .process, decoding: .string, then: note)
    other.send(Request(.get, "held?id=process-other&body=kept"), lifetime: .process, decoding: .string, then: note)
    try await server.reaches(.open, of: "process-mine", 1)
    try await server.reaches(.open, of: "process-other", 1)
    client.cancelRequests(ownedBy: .process)
    try await server.reaches(.closed, of: "process-mine", 1)
    try await calls.reaches(1)
    try await server.release("process-other")
    try await calls.reaches(2)
    #expect(calls.entries == ["cancelled", "kept"])
    #expect(OwnerLifetime.process.isAlive)
    let fetched = client.operation(for: Request(.get, "echo"), lifetime: .process, decoding: .data)
    OwnerScopedQueue().addOperation(fetched)
    #expect(try await fetched.value.status == 200)
  }

  // MARK: Cancelling

  @Test func aResultIsThereForWhoHearsOfTheFinish() async throws {
    let operation = server.client().operation(for: Request(.get, "status?status=404"), lifetime: OwnerLifetime(), decoding: .empty)
    let seen = Journal<Bool>()
    let observation = operation.observe(\.isFinished) { heard, _ in
      if heard.isFinished { seen.write((heard as? RequestOperation<Void>)?.result != nil) }
    }
    OwnerScopedQueue().addOperation(operation)
    await operation.finished()
    try await seen.reaches(1)
    #expect(seen.entries == [true])
    withExtendedLifetime(observation) {}
  }

  @Test func cancellingAnOwnersRequestsLeavesThoseOfOthers() async throws {
    let client = server.client()
    let (mine, others) = (OwnerLifetime(), OwnerLifetime())
    let first = client.send(Request(.get, "hang?id=mine"), lifetime: mine, decoding: .data) { _ in }
    let second = client.operation(for: Request(.get, "echo"), lifetime: mine, decoding: .data)
    let third = client.send(Request(.get, "held?id=others"), lifetime: others, decoding: .data) { _ in }
    try await server.reaches(.open, of: "mine", 1)
    client.cancelRequests(ownedBy: mine)
    try await server.reaches(.closed, of: "mine", 1)
    #expect(first.isCancelled && second.isCancelled && !third.isCancelled)
    #expect(mine.isAlive)
    try await server.release("others")
    _ = try await third.value
    _ = try await client.response(to: Request(.get, "echo"), lifetime: mine, decoding: .data)
  }

  /// At a host that takes one request at a time.
  @Test func whoHearsOfACancellationMayWaitForRequestsOfOthers() async throws {
    let client = server.client { $0.maxConcurrentRequestsPerHost = 1 }
    let (mine, gate, calls) = (OwnerLifetime(), Gate(), Journal<Int>())
    defer { gate.open() }
    let first = client.send(Request(.get, "hang?id=waits-for-others"), lifetime: mine, decoding: .data) { _ in }
    try await server.reaches(.open, of: "waits-for-others", 1)
    let next = client.send(Request(.get, "echo?id=waits-mine"), lifetime: mine, decoding: .data) { _ in }
    let other = client.send(Request(.get, "echo"), lifetime: .process, decoding: .data) { _ in
      calls.write(1)
      gate.open()
    }
    #expect(try await soon { client.hub.limits.waitingCount == 2 })
    let observation = first.observe(\.isFinished) { _, _ in gate.wait() }
    #expect(try await returns { client.cancelRequests(ownedBy: mine) })
    #expect(calls.entries == [1] && next.isCancelled && !other.isCancelled)
    #expect(try await server.tell(.count, of: "waits-mine") == 0)
    withExtendedLifetime(observation) {}
  }

  /// Lets go of the owner, its last reference, when work is added to its queue: while whoever adds that is still inside of the call.
  private final class Forgetful: QueueDriver {
    final class Owner: OperationOwner, Sendable {
      let lifetimeToken = OwnerLifetime.Token()
    }

    let owner = Guarded<Owner?>(Owner())
    let isGone = Journal<Bool>()

    func add(_ step: DrivenStep) {
      weak var former: Owner?
      owner.withLock { owner in
        former = owner
        owner = nil
      }
      isGone.write(former == nil)
    }
    func add(_ call: DrivenCall, after delay: Duration) {}
    func drive(until isOver: () -> Bool, for wait: @autoclosure () -> String) {}
    func choose(among count: Int) -> Int { 0 }
  }

  @Test func whoAddsAHandlersCallHoldsNoOwner() async throws {
    let client = server.client()
    let driver = Forgetful()
    let queue = OwnerScopedQueue(name: nil, maxConcurrentOperationCount: 1, driver: driver, isShuffled: false)
    _ = try driver.owner.withLock { owner in
      client.send(Request(.get, "held?id=unheld"), owner: try #require(owner), decoding: .data, on: queue) { _, _ in }
    }
    try await server.reaches(.open, of: "unheld", 1)
    try await server.release("unheld")
    try await driver.isGone.reaches(1)
    #expect(driver.isGone.entries == [true])
  }

  @Test func cancellingATaskCancelsItsRequest() async throws {
    let client = server.client()
    let task = Task { try await client.response(to: Request(.get, "hang?id=task"), lifetime: OwnerLifetime(), decoding: .data) }
    try await server.reaches(.open, of: "task", 1)
    task.cancel()
    guard case .cancelled(.requested) = await failure({ _ = try await task.value }) else {
      Issue.record("not cancelled")
      return
    }
    try await server.reaches(.closed, of: "task", 1)
  }

  @Test func aTaskThatWaitsForAnOperationMayGoWithoutIt() async throws {
    let lifetime = OwnerLifetime()
    let operation = server.client().send(Request(.get, "held?id=waiter"), lifetime: lifetime, decoding: .data) { _ in }
    let task = Task { try await operation.value }
    try await server.reaches(.open, of: "waiter", 1)
    task.cancel()
    await #expect(throws: CancellationError.self) { _ = try await task.value }
    try await server.release("waiter")
    _ = try await operation.value
  }

  @Test func aTimeoutOfTheOperationIsATimeoutOfTheRequest() async throws {
    let operation = server.client().operation(for: Request(.get, "hang?id=operation-timeout"), lifetime: OwnerLifetime(), decoding: .data)
    operation.timeout = .milliseconds(200)
    // It passes when there is a connection, and not before.
    OperationTimers.queue.suspend()
    do {
      defer { OperationTimers.queue.resume() }
      OwnerScopedQueue().addOperation(operation)
      try await server.reaches(.open, of: "operation-timeout", 1)
    }
    guard case .timedOut = await failure({ _ = try await operation.value }) else {
      Issue.record("\(String(describing: operation.result))")
      return
    }
    try await server.reaches(.closed, of: "operation-timeout", 1)
  }

  @Test func ownersMayEndInTheMiddleOfRedirects() async throws {
    let client = server.client { $0.maxConcurrentRequestsPerHost = 20 }
    for round in 0..<100 {
      let lifetimes = (0..<4).map { _ in OwnerLifetime() }
      let operations = lifetimes.map { client.send(Request(.get, "loop?id=redirect-end-\(round)"), lifetime: $0, decoding: .data) { _ in } }
      try await Task.sleep(for: .microseconds(100 * round))
      for lifetime in lifetimes { lifetime.end() }
      for operation in operations { _ = await failure { _ = try await operation.value } }
    }
    #expect(
      try await client.response(to: Request(.get, "status?status=200&body=alive"), lifetime: OwnerLifetime(), decoding: .string).value
        == "alive")
  }
}
