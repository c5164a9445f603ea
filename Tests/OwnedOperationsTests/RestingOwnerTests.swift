import Foundation
import Testing

@testable import OwnedOperations

/// Owners whose work is over when they end: nothing is to be cancelled, and the queue hears of it without haste.
struct RestingOwnerTests {
  private final class Screen: OperationOwner, Sendable { let lifetimeToken = OwnerLifetime.Token() }

  /// The queue never runs out of work, so that nothing but the owner's end makes it forget the owner.
  @Test func aQueueThatIsNeverIdleForgetsAnOwnerThatEndsAtRest() {
    let (queue, gate) = (OwnerScopedQueue(maxConcurrentOperationCount: 2), Gate())
    queue.async(lifetime: .process) { gate.pass() }
    #expect(gate.hasBegun())
    var screen: Screen? = Screen()
    let lifetime = screen!.lifetime
    let isRun = DispatchSemaphore(value: 0)
    queue.async(owner: screen!) { _ in isRun.signal() }
    #expect(isRun.waitUntilSignalled())
    #expect(eventually { queue.snapshot(of: lifetime)?.pending == PendingAmount.none })
    screen = nil
    #expect(eventually { queue.snapshot(of: lifetime) == nil })
    gate.open()
    #expect(queue.becomesIdle())
  }

  @Test func anOwnerRestsWhileItHasNothingUnfinished() {
    let (queue, gate) = (OwnerScopedQueue(maxConcurrentOperationCount: 1), Gate())
    let screen = Screen()
    let lifetime = screen.lifetime
    queue.async(owner: screen) { _ in gate.pass() }
    #expect(queue.snapshot(of: lifetime)?.pending == .one)
    #expect(gate.hasBegun())
    queue.async(owner: screen) { _ in gate.pass() }
    #expect(queue.snapshot(of: lifetime)?.pending == .several)
    gate.open()
    #expect(gate.hasBegun())
    #expect(eventually { queue.snapshot(of: lifetime)?.pending == .one })
    queue.async(lifetime: .process) { gate.pass() }  // keeps the queue from forgetting who is at rest
    gate.open()
    #expect(gate.hasBegun())
    #expect(eventually { queue.snapshot(of: lifetime)?.pending == PendingAmount.none })
    gate.open()
    #expect(queue.becomesIdle())
  }

  /// One that isn't at rest has all told at once; those that are leave nobody out.
  @Test(arguments: [[true], [true, true], [true, false, true], [false], Array(repeating: true, count: 9)])
  func allMembersAreToldOnce(_ atRest: [Bool]) {
    let lifetime = OwnerLifetime()
    let told = atRest.map { _ in SharedCounter() }
    let members = zip(atRest, told).map { isAtRest, count in Member(lifetime, isAtRest: isAtRest) { count.add() } }
    for member in members { #expect(lifetime.join(member)) }
    lifetime.end()
    #expect(eventually { told.allSatisfy { $0.value == 1 } })
    LifetimeReaper.waitUntilIdle()
    #expect(told.allSatisfy { $0.value == 1 })
    withExtendedLifetime(members) {}
  }

  private final class Member: LifetimeMember {
    static let memberKind: MemberKind = MemberKind(of: Member.self)
    nonisolated(unsafe) var memberIndex = MemberList.notListed  // guarded by the lifetime's lock
    let pending: PendingAmount
    private let lifetime: OwnerLifetime
    private let body: @Sendable () -> Void

    init(_ lifetime: OwnerLifetime, isAtRest: Bool, _ body: @escaping @Sendable () -> Void) {
      (self.lifetime, pending, self.body) = (lifetime, isAtRest ? .none : .several, body)
    }

    deinit { lifetime.leave(self) }
    func lifetimeDidEnd() { body() }
  }
}
