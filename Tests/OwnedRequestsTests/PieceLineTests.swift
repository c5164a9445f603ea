import Foundation
import OwnedOperations
import Testing

@testable import OwnedRequests

@Suite struct PieceLineTests {
  @Test func piecesRunOneAfterTheOtherInTheirOrder() async throws {
    let line = PieceLine()
    let (order, inside) = (Journal<Int>(), Guarded(0))
    for number in 0..<10_000 {
      line.add {
        inside.withLock { $0 += 1 }
        #expect(inside.withLock { $0 } == 1)
        order.write(number)
        inside.withLock { $0 -= 1 }
      }
    }
    try await order.reaches(10_000)
    #expect(order.entries == Array(0..<10_000))
  }

  @Test func aPieceThatLeavesHoldsUpNobody() async throws {
    let line = PieceLine()
    let (gate, order) = (Gate(), Journal<Int>())
    // More than there are processors.
    for number in 0..<8 {
      line.add {
        line.leave()
        gate.wait()
        order.write(number)
      }
    }
    line.add { order.write(-1) }
    try await order.reaches(1)
    #expect(order.entries == [-1])
    gate.open()
    try await order.reaches(9)
    #expect(Set(order.entries) == Set(-1..<8))
  }

  @Test func whatIsAddedWhileTheLastPieceHasLeftIsRun() async throws {
    let line = PieceLine()
    let (gate, order) = (Gate(), Journal<Int>())
    line.add {
      line.leave()
      order.write(0)
      gate.wait()
    }
    try await order.reaches(1)
    for number in 1...100 { line.add { order.write(number) } }
    try await order.reaches(101)
    #expect(order.entries == Array(0...100))
    gate.open()
  }

  /// Nor does the one that a shared answer is decoded for first.
  @Test(.enabled(if: LoopbackServer.isThere), arguments: [false, true])
  func aDecoderThatWaitsHoldsUpNoOtherRequest(isShared: Bool) async throws {
    let server = try #require(LoopbackServer.shared)
    let client = server.client()
    let (gate, decodings) = (Gate(), Journal<Int>())
    defer { gate.open() }
    let id = "slow-decoder-\(isShared)"
    let slow = ResponseDecoder<Int> { _, _ in
      decodings.write(1)
      gate.wait()
      return 0
    }
    let held = client.send(Request(.get, "held?id=\(id)"), lifetime: .process, decoding: slow) { _ in }
    try await server.reaches(.count, of: id, 1)
    let path = isShared ? "held?id=\(id)" : "echo"
    let other = client.send(Request(.get, path), lifetime: .process, decoding: .data) { _ in }
    if isShared { #expect(try await eventually { other.isExecuting }) }
    try await server.release(id)
    try await decodings.reaches(1)
    #expect(try await other.value.status == 200)
    #expect(try await client.response(to: Request(.get, "echo"), lifetime: .process, decoding: .data).status == 200)
    #expect(!held.isFinished)
    gate.open()
    #expect(try await held.value.value == 0)
  }
}
