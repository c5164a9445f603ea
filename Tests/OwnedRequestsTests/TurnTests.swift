import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// Waits for a transfer, and tells when it begins.
private final class Asker: TransferSubscriber {
  private let begins: @Sendable () -> Void

  init(begins: @escaping @Sendable () -> Void) { self.begins = begins }

  let acceptedStatus = 200..<300
  var isWanted: Bool { true }
  func transferDidBegin(attempt: Int) { begins() }
  func transferDidProgress(_ progress: TransferProgress, attempt: Int) {}
  func transferDidEnd(_ result: Result<Exchange, RequestError>, head: ResponseHead?, attempt: Int) {}
}

/// Who gets the next turn at a host, and on which thread.
@Suite(.serialized) struct TurnTests {
  private let limits = HostLimits(limit: 1)
  private let hub: TransferHub

  init() { hub = TransferHub(session: TransferSession(configuration: .ephemeral), limits: limits) }

  private func ask(
    _ address: String, _ priority: Operation.QueuePriority = .normal, begins: @escaping @Sendable () -> Void = {}
  ) throws -> TransferHub.Place {
    let outgoing = Outgoing(urlRequest: URLRequest(url: try #require(URL(string: address))), body: .none)
    let key = TransferKey(outgoing.urlRequest)
    return try #require(hub.subscribe(Asker(begins: begins), attempt: 1, to: outgoing, key: key, priority: priority))
  }

  /// Nobody listens there.
  private let nowhere = "http://127.0.0.1:1"

  @Test func anUrgentAskerThatJoinsARequestInLineBringsItForward() async throws {
    let holder = limits.ticket(host: nowhere, priority: .normal) {}
    holder.enter()
    let order = Journal<String>()
    let asked: [(String, Operation.QueuePriority)] = [
      ("a", .normal), ("b", .low), ("c", .high), ("d", .veryLow), ("b", .normal), ("b", .veryHigh), ("d", .high), ("c", .low),
    ]
    let places = try asked.map { name, priority in try ask("\(nowhere)/\(name)", priority) { order.write(name) } }
    holder.release()
    try await order.reaches(8)
    #expect(order.entries == ["b", "b", "b", "c", "c", "d", "d", "a"])
    for place in places { place.leave() }
  }

  @Test(.enabled(if: LoopbackServer.isThere), arguments: ["cancel", "limit"])
  func theNextRequestBeginsOnNoThreadOfTheCallers(of call: String) async throws {
    let server = try #require(LoopbackServer.shared)
    let (gate, begun) = (Gate(), Journal<Int>())
    let address = "\(server.base.absoluteString)/hang?id=turn-\(call)"
    let first = try ask(address)
    let next = try ask(address + "&next=1") {
      gate.wait()
      begun.write(1)
    }
    let limits = limits
    let hasReturned = try await returns {
      switch call {
      case "cancel": first.leave()
      default: limits.limit = 2
      }
    }
    #expect(hasReturned)
    gate.open()
    try await begun.reaches(1)
    #expect(begun.entries == [1])
    first.leave()
    next.leave()
  }
}
