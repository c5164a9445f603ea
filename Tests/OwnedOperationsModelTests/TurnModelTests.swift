import Foundation
import Testing

@testable import OwnedOperations
@testable import OwnedRequests

/// Turns of requests at a host: no more at once than may be, none lost, none for who has gone.
@Suite(.serialized) struct TurnModelTests {
  /// A request as a transfer is one: waiting, under way, over.
  private final class Asker: Sendable {
    enum Phase { case waiting, underWay, over }

    let name: String
    let phase = Guarded(Phase.waiting)

    init(_ name: String) { self.name = name }
  }

  private final class Scene: @unchecked Sendable {  // but for `later`, which is guarded, the baton holder's
    let run: ModelRun
    let limit: Int
    private(set) var limits: HostLimits!
    private let later = Guarded<[@Sendable () -> Void]>([])
    private let place = ModelPoint()
    var underWay = 0
    var begun: [String] = []

    init(_ run: ModelRun, limit: Int = 1) {
      self.run = run
      self.limit = limit
      limits = HostLimits(limit: limit) { [unowned self] block in later.withLock { $0.append(block) } }
    }

    /// What the queue of turns does.
    func runTurns() {
      while let block = later.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { block() }
    }

    func ask(_ asker: Asker, _ priority: Operation.QueuePriority = .normal) -> HostLimits.Ticket {
      limits.ticket(host: "host", priority: priority) { [self] in
        asker.phase.withLock { phase in
          guard phase == .waiting else { return }
          phase = .underWay
          underWay += 1
          begun.append(asker.name)
        }
        run.expect(underWay <= limit, "\(underWay) at once")
        place.pass()
      }
    }

    /// An end, a cancellation, or the owner's end. Afterwards nothing begins for it.
    func leave(_ asker: Asker, _ ticket: HostLimits.Ticket, isCancelled: Bool = true) {
      asker.phase.withLock { phase in
        if phase == .underWay { underWay -= 1 }
        phase = .over
      }
      ticket.release(grantsHere: !isCancelled)
    }

    func expectBegun(_ names: Set<String>) {
      runTurns()
      run.expect(names.isSubset(of: begun), "\(begun) have begun, \(names) want to")
      run.expect(Set(begun).count == begun.count, "\(begun): one began twice")
    }
  }

  private static func explore(
    _ name: String, preemptions: Int = 2, _ location: SourceLocation = #_sourceLocation, _ scenario: @escaping @Sendable (ModelRun) -> Void
  ) {
    ModelExplorer("turns: \(name)").expectNothing(preemptions: preemptions, location, scenario)
  }

  @Test func theTurnOfOneThatEndsGoesToWhoIsStillInLine() {
    Self.explore("end | cancel in line | turns") { run in
      let scene = Scene(run)
      let (first, second, third) = (Asker("first"), Asker("second"), Asker("third"))
      let tickets = [scene.ask(first), scene.ask(second), scene.ask(third)]
      for ticket in tickets { ticket.enter() }
      run.concurrently(
        ("end", { scene.leave(first, tickets[0], isCancelled: false) }), ("cancel", { scene.leave(second, tickets[1]) }),
        ("turns", { scene.runTurns() }))
      scene.expectBegun(["first", "third"])
      run.expect(scene.underWay == 1, "\(scene.underWay) are under way")
    }
  }

  @Test func whoEntersWhileATurnIsGivenBackHasIt() {
    Self.explore("enter | end | enter, cancel") { run in
      let scene = Scene(run)
      let (first, second, third) = (Asker("first"), Asker("second"), Asker("third"))
      let tickets = [scene.ask(first), scene.ask(second), scene.ask(third)]
      tickets[0].enter()
      run.concurrently(
        ("enter", { tickets[1].enter() }), ("end", { scene.leave(first, tickets[0], isCancelled: false) }),
        (
          "enter, cancel",
          {
            tickets[2].enter()
            scene.leave(third, tickets[2])
          }
        ))
      scene.expectBegun(["first", "second"])
      run.expect(scene.underWay == 1, "\(scene.underWay) are under way")
    }
  }

  @Test func oneThatIsRaisedHasItsTurnOnce() {
    Self.explore("raise, raise | end | cancel") { run in
      let scene = Scene(run)
      let (first, second, third) = (Asker("first"), Asker("second"), Asker("third"))
      let tickets = [scene.ask(first), scene.ask(second), scene.ask(third, .low)]
      for ticket in tickets { ticket.enter() }
      run.concurrently(
        (
          "raise",
          {
            tickets[2].raise(to: .normal)
            tickets[2].raise(to: .veryHigh)
          }
        ), ("end", { scene.leave(first, tickets[0], isCancelled: false) }), ("cancel", { scene.leave(second, tickets[1]) }))
      scene.expectBegun(["first", "third"])
      run.expect(scene.underWay == 1, "\(scene.underWay) are under way")
    }
  }

  @Test func aLimitThatIsRaisedGivesEachTurnOnce() {
    Self.explore("limit | end | turns") { run in
      let scene = Scene(run, limit: 2)
      scene.limits.limit = 1
      let (first, second, third) = (Asker("first"), Asker("second"), Asker("third"))
      let tickets = [scene.ask(first), scene.ask(second), scene.ask(third)]
      for ticket in tickets { ticket.enter() }
      run.concurrently(
        ("limit", { scene.limits.limit = 2 }), ("end", { scene.leave(first, tickets[0], isCancelled: false) }),
        ("turns", { scene.runTurns() }))
      scene.expectBegun(["first", "second", "third"])
      run.expect(scene.underWay == 2, "\(scene.underWay) are under way")
    }
  }
}
