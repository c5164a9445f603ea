import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

/// Request operations as operations of Foundation: in queues of its own, in graphs, started by hand, or never.
@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct OperationUseTests {
  private let server = LoopbackServer.shared!
  private let lifetime = OwnerLifetime()

  private func operation(_ client: RequestClient, _ url: String, _ lifetime: OwnerLifetime? = nil) -> RequestOperation<String> {
    client.operation(for: Request(.get, url), lifetime: lifetime ?? self.lifetime, decoding: .string)
  }

  private final class Weak: Sendable {
    weak let object: (any AnyObject & Sendable)?
    init(_ object: any AnyObject & Sendable) { self.object = object }
  }

  // MARK: A queue of Foundation's

  @Test func aQueueOfFoundationsRunsRequestsWithTheirDependencies() async throws {
    let (client, queue, order) = (server.client(), OperationQueue(), Journal<String>())
    queue.maxConcurrentOperationCount = 1
    let first = operation(client, "held?id=foundation-line&body=first")
    let second = operation(client, "status?status=200&body=second")
    let last = BlockOperation { order.write("\(first.response?.value ?? "nil") \(second.response?.value ?? "nil")") }
    second.addDependency(first)
    last.addDependency(second)
    for operation in [last, second, first] { queue.addOperation(operation) }
    try await server.reaches(.open, of: "foundation-line", 1)
    #expect(first.isExecuting && !second.isExecuting)
    try await server.release("foundation-line")
    #expect(try await second.value.value == "second")
    try await order.reaches(1)
    #expect(order.entries == ["first second"])
    #expect(try await soon { queue.operationCount == 0 })
  }

  /// By its owner's end, by hand, or with all of the queue. The queue goes on.
  @Test(arguments: ["owner", "operation", "queue", "suspended"])
  func aQueueOfFoundationsGoesOnAfterARequestThatWasCancelled(by who: String) async throws {
    let (client, queue, mine) = (server.client(), OperationQueue(), OwnerLifetime())
    queue.maxConcurrentOperationCount = 1
    queue.isSuspended = who == "suspended"
    let first = operation(client, "hang?id=foundation-\(who)", mine)
    let next = operation(client, "status?status=200&body=next")
    queue.addOperation(first)
    if who != "suspended" { try await server.reaches(.open, of: "foundation-\(who)", 1) }
    switch who {
    case "owner": mine.end()
    case "operation", "suspended": first.cancel()
    default: queue.cancelAllOperations()
    }
    queue.addOperation(next)
    queue.isSuspended = false
    #expect(try await next.value.value == "next")
    #expect(first.isFinished && first.isCancelled)
    guard case .cancelled? = await failure({ _ = try await first.value }) else {
      Issue.record("\(String(describing: first.result))")
      return
    }
    if who != "suspended" { try await server.reaches(.closed, of: "foundation-\(who)", 1) }
    #expect(try await server.tell(.count, of: "foundation-\(who)") == (who == "suspended" ? 0 : 1))
  }

  // MARK: By hand

  @Test func whatIsStartedByHandNeedsNobodyWhoHoldsIt() async throws {
    let (client, done) = (server.client(), Journal<String>())
    let watched: Weak
    do {
      let operation = operation(client, "held?id=by-hand&body=here")
      operation.completionBlock = { [unowned operation] in done.write(operation.response?.value ?? "nil") }
      operation.start()
      #expect(operation.isExecuting)
      watched = Weak(operation)
    }
    try await server.reaches(.open, of: "by-hand", 1)
    #expect(watched.object != nil)
    try await server.release("by-hand")
    try await done.reaches(1)
    #expect(done.entries == ["here"])
    #expect(try await soon { watched.object == nil })
  }

  @Test func whatWasCancelledBeforeItIsStartedByHandIsOverAtOnceAndNothingIsSent() async throws {
    let operation = operation(server.client(), "echo?id=by-hand-cancelled")
    operation.cancel()
    guard case .cancelled(.requested)? = await failure({ _ = try await operation.value }) else {
      Issue.record("\(String(describing: operation.result))")
      return
    }
    operation.start()
    #expect(operation.isFinished)
    #expect(try await server.tell(.count, of: "by-hand-cancelled") == 0)
  }

  // MARK: Awaited

  /// Some before the start, some while it is under way, some afterwards, and some that are cancelled meanwhile.
  @Test func manyTasksMayWaitForOneRequest() async throws {
    let client = server.client()
    let operation = operation(client, "held?id=many-wait&body=here")
    let before = (0..<10).map { _ in Task { try await operation.value.value } }
    let cancelled = (0..<10).map { _ in Task { try await operation.value.value } }
    operation.start()
    try await server.reaches(.open, of: "many-wait", 1)
    let meanwhile = (0..<10).map { _ in Task { try await operation.value.value } }
    for task in cancelled { task.cancel() }
    for task in cancelled {
      await #expect(throws: CancellationError.self) { try await task.value }
    }
    try await server.release("many-wait")
    for task in before + meanwhile { #expect(try await task.value == "here") }
    #expect(try await operation.value.value == "here")
    #expect(try await server.tell(.count, of: "many-wait") == 1)
  }

  /// The streams end, and what the decoder has captured goes.
  @Test func whatIsNeverStartedGoesWithItsLastReference() async throws {
    let client = server.client()
    let (watched, captured): (Weak, Weak)
    let stream: AsyncStream<TransferProgress>
    do {
      let screen = Screen()
      let decoder = ResponseDecoder { _, _ in screen.lifetimeToken.lifetime }
      let operation = client.operation(for: Request(.get, "echo?id=never-started"), lifetime: lifetime, decoding: decoder)
      stream = operation.progress
      (watched, captured) = (Weak(operation), Weak(screen))
    }
    #expect(watched.object == nil && captured.object == nil)
    for await _ in stream { Issue.record("nothing was sent") }
    client.cancelRequests(ownedBy: lifetime)
    #expect(try await server.tell(.count, of: "never-started") == 0)
  }

  /// They hold it, and its owner's end reaches it.
  @Test func theEndOfAnOwnerReachesWhoWaitsForWhatIsNeverStarted() async throws {
    let (client, mine) = (server.client(), OwnerLifetime())
    let (task, watched) = {
      let operation = operation(client, "echo?id=never-started-owner", mine)
      return (Task { await failure { _ = try await operation.value } }, Weak(operation))
    }()
    #expect(try await soon { (watched.object as? RequestOperation<String>)?.waiterCount == 1 })
    mine.end()
    guard case .cancelled(.ownerEnded)? = await task.value else {
      Issue.record("\(String(describing: await task.value))")
      return
    }
  }
}
