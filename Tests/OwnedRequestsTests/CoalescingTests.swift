import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

@Suite(.enabled(if: LoopbackServer.isThere), .serialized) struct CoalescingTests {
  private let server = LoopbackServer.shared!

  /// Returns when as many wait for transfers that others may join. An operation is executing before it does.
  private func areSharing(_ count: Int, of client: RequestClient) async throws {
    #expect(try await eventually { client.hub.sharerCount == count })
  }

  @Test func equalRequestsOfDifferentOwnersShareATransfer() async throws {
    let client = server.client()
    let (one, two) = (OwnerLifetime(), OwnerLifetime())
    let request = Request(.get, "held?id=share&body=12")
    let first = client.send(request, lifetime: one, decoding: .string) { _ in }
    let second = client.send(request, lifetime: two, decoding: .json(Int.self)) { _ in }
    try await server.reaches(.open, of: "share", 1)
    let third = client.send(request, lifetime: two, decoding: .json([Int].self)) { _ in }
    try await areSharing(3, of: client)
    try await server.release("share")
    #expect(try await first.value.value == "12")
    #expect(try await second.value.value == 12)
    let error = await failure { _ = try await third.value }
    #expect(error != nil)
    #expect(try await server.tell(.most, of: "share") == 1)
  }

  @Test func theEndOfOneOwnerLeavesTheTransferToTheOthers() async throws {
    let client = server.client()
    let (one, two) = (OwnerLifetime(), OwnerLifetime())
    let calls = Journal<Int>()
    let request = Request(.get, "held?id=share-end")
    let first = client.send(request, lifetime: one, decoding: .data) { _ in calls.write(1) }
    let second = client.send(request, lifetime: two, decoding: .data) { _ in calls.write(2) }
    try await areSharing(2, of: client)
    try await server.reaches(.open, of: "share-end", 1)
    one.end()
    _ = await failure { _ = try await first.value }
    try await server.release("share-end")
    #expect(try await second.value.attempts == 1)
    try await calls.reaches(1)
    #expect(calls.entries == [2])
    #expect(try await server.tell(.count, of: "share-end") == 1)
  }

  @Test func theEndOfTheLastOwnerStopsTheTransfer() async throws {
    let client = server.client()
    let lifetimes = (0..<3).map { _ in OwnerLifetime() }
    for lifetime in lifetimes { client.send(Request(.get, "hang?id=share-last"), lifetime: lifetime, decoding: .data) { _ in } }
    try await server.reaches(.open, of: "share-last", 1)
    try await areSharing(3, of: client)
    for lifetime in lifetimes { lifetime.end() }
    try await server.reaches(.closed, of: "share-last", 1)
    #expect(try await server.tell(.count, of: "share-last") == 1)
    // What comes afterwards is a transfer of its own.
    let late = client.send(Request(.get, "hang?id=share-last"), lifetime: OwnerLifetime(), decoding: .data) { _ in }
    try await server.reaches(.count, of: "share-last", 2)
    late.cancel()
  }

  @Test func thousandsOfOwnersOfOneTransferEndAtOnce() async throws {
    let client = server.client()
    let lifetimes = (0..<5000).map { _ in OwnerLifetime() }
    let calls = Journal<Int>()
    let operations = lifetimes.map { lifetime in
      client.send(Request(.get, "drip?id=share-thousands"), lifetime: lifetime, decoding: .data) { _ in calls.write(1) }
    }
    try await server.reaches(.open, of: "share-thousands", 1)
    try await areSharing(lifetimes.count, of: client)
    DispatchQueue.concurrentPerform(iterations: 8) { part in
      for index in stride(from: part, to: lifetimes.count, by: 8) { lifetimes[index].end() }
    }
    try await server.reaches(.closed, of: "share-thousands", 1)
    for operation in operations { await operation.finished() }
    #expect(calls.entries.isEmpty)
    #expect(try await server.tell(.count, of: "share-thousands") == 1)
  }

  @Test func whatIsNotEqualOrNotToBeSharedIsNot() async throws {
    let client = server.client { $0.maxConcurrentRequestsPerHost = 100 }
    let lifetime = OwnerLifetime()
    var unshared = Request(.get, "held?id=unshared")
    unshared.coalesces = false
    let pairs: [[Request]] = [
      [Request(.post, "held?id=unshared"), Request(.post, "held?id=unshared")],
      [unshared, unshared],
      [Request(.get, "held?id=unshared", headers: ["X": "1"]), Request(.get, "held?id=unshared", headers: ["X": "2"])],
      [
        Request(.get, "held?id=unshared", headers: ["Authorization": "secret"]),
        Request(.get, "held?id=unshared", headers: ["Authorization": "secret"]),
      ],
    ]
    let operations = pairs.joined().map { client.send($0, lifetime: lifetime, decoding: .data) { _ in } }
    try await server.reaches(.open, of: "unshared", 8)
    try await server.release("unshared")
    for operation in operations { _ = try await operation.value }
    #expect(try await server.tell(.count, of: "unshared") == 8)
  }

  @Test func credentialsAreSharedWhereThatIsAskedFor() async throws {
    let client = server.client()
    let lifetime = OwnerLifetime()
    var request = Request(.get, "held?id=shared-secret", headers: ["Authorization": "secret"])
    request.coalesces = true
    let operations = (0..<3).map { _ in client.send(request, lifetime: lifetime, decoding: .data) { _ in } }
    try await server.reaches(.open, of: "shared-secret", 1)
    try await areSharing(3, of: client)
    try await server.release("shared-secret")
    for operation in operations { _ = try await operation.value }
    #expect(try await server.tell(.most, of: "shared-secret") == 1)
  }

  @Test func eachAskerValidatesAndTimesOutForItself() async throws {
    let client = server.client()
    let lifetime = OwnerLifetime()
    let patient = Request(.get, "held?id=share-time")
    var hasty = patient
    hasty.timeout = .milliseconds(200)
    var strict = patient
    strict.acceptedStatus = 201..<202
    let first = client.send(patient, lifetime: lifetime, decoding: .data) { _ in }
    let second = client.send(hasty, lifetime: lifetime, decoding: .data) { _ in }
    let third = client.send(strict, lifetime: lifetime, decoding: .data) { _ in }
    _ = try await eventually { third.isExecuting }
    guard case .timedOut = await failure({ _ = try await second.value }) else {
      Issue.record("\(String(describing: second.result))")
      return
    }
    try await server.release("share-time")
    _ = try await first.value
    guard case .status(200, _) = await failure({ _ = try await third.value }) else {
      Issue.record("\(String(describing: third.result))")
      return
    }
  }
}
