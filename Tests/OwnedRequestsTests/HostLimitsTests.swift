import Foundation
import Testing

@testable import OwnedRequests

@Suite struct HostLimitsTests {
  private func enter(
    _ limits: HostLimits, _ host: String, _ priority: Operation.QueuePriority = .normal, _ body: @escaping @Sendable () -> Void
  )
    -> HostLimits.Ticket
  {
    let ticket = limits.ticket(host: host, priority: priority, grant: body)
    ticket.enter()
    return ticket
  }

  @Test func turnsAreGivenByPriorityThenInOrder() {
    let limits = HostLimits(limit: 1)
    let order = Journal<Int>()
    let first = enter(limits, "a") { order.write(0) }
    let others = [(1, Operation.QueuePriority.low), (2, .normal), (3, .veryHigh), (4, .normal), (5, .high)].map { number, priority in
      enter(limits, "a", priority) { order.write(number) }
    }
    let elsewhere = enter(limits, "b") { order.write(9) }
    #expect(order.entries == [0, 9])
    first.release()
    for index in [2, 4, 1, 3, 0] { others[index].release() }
    #expect(order.entries == [0, 9, 3, 5, 2, 4, 1])
    elsewhere.release()
  }

  @Test func whoeverIsRaisedHasOneTurnInItsNewPlace() {
    let limits = HostLimits(limit: 1)
    let order = Journal<Int>()
    let first = enter(limits, "a") { order.write(0) }
    // So many that holes are taken out of the line.
    let others = (1...1000).map { number in enter(limits, "a", .veryLow) { order.write(number) } }
    for number in 2...900 { others[number - 1].raise(to: .low) }
    for number in stride(from: 900, to: 1, by: -2) { others[number - 1].raise(to: .veryHigh) }
    others[2].raise(to: .veryLow)
    others[4].release()
    let outside = limits.ticket(host: "a", priority: .low) { order.write(1001) }
    outside.raise(to: .high)
    outside.enter()
    first.release()
    var turn = 1
    while order.entries.count > turn {
      let number = order.entries[turn]
      turn += 1
      if number > 1000 { outside.release() } else { others[number - 1].release() }
    }
    let raised = Array(stride(from: 900, to: 1, by: -2))
    #expect(order.entries == [0] + raised + [1001] + stride(from: 3, to: 900, by: 2).filter { $0 != 5 } + [1] + Array(901...1000))
    outside.raise(to: .veryHigh)
    others[0].raise(to: .veryHigh)
    #expect(order.entries.count == 1001)
  }

  @Test func whoeverLeavesTheLineGetsNoTurn() {
    let limits = HostLimits(limit: 1)
    let order = Journal<Int>()
    let first = enter(limits, "a") { order.write(0) }
    let others = (1...1000).map { number in enter(limits, "a") { order.write(number) } }
    for ticket in others.dropLast() { ticket.release() }
    first.release()
    first.release()
    #expect(order.entries == [0, 1000])
    let outside = limits.ticket(host: "a", priority: .normal) { order.write(-1) }
    outside.release()
    outside.enter()
    others[999].release()
    #expect(order.entries == [0, 1000])
  }

  @Test func aRaisedLimitGivesTurns() async throws {
    let limits = HostLimits(limit: 1)
    let order = Journal<Int>()
    let tickets = (0..<10).map { number in enter(limits, "a") { order.write(number) } }
    limits.limit = 4
    try await order.reaches(4)
    #expect(order.entries == [0, 1, 2, 3])
    limits.limit = 1
    for ticket in tickets[0..<3] { ticket.release() }
    #expect(order.entries.count == 4)
    tickets[3].release()
    #expect(order.entries == [0, 1, 2, 3, 4])
    for ticket in tickets[4...] { ticket.release() }
  }
}
