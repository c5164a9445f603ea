import Foundation
import Testing

@testable import OwnedOperations

/// Observers of operations that leave with their owners.
@Suite struct OperationObserverTests {
  private let journal = Journal<String>()

  @Test func everyFormHearsOfChangesUntilTheOperationHasFinished() {
    let operation = OwnedBlockOperation(lifetime: .forTests) {}
    let (tokenOwner, plainOwner, lifetime) = (TokenOwner(), Tokenless(), OwnerLifetime())
    // None of the observations is kept.
    operation.observe(\.isFinished, owner: tokenOwner) { [journal] owner, operation, change in
      journal.write("token \(owner.lifetime.isAlive) \(operation.isFinished) \(change.newValue ?? false)")
    }
    operation.observe(\.isFinished, options: [.old], owner: plainOwner) { [journal] _, _, change in
      journal.write("plain \(change.oldValue ?? true) \(change.newValue == nil)")
    }
    operation.observe(\.isFinished, options: [.initial, .new], lifetime: lifetime) { [journal] _, change in
      journal.write("lifetime \(change.newValue.map(String.init) ?? "")")
    }
    operation.start()
    #expect(journal.entries == ["lifetime false", "token true true true", "plain false true", "lifetime true"])
    withExtendedLifetime((tokenOwner, plainOwner)) {}
  }

  @Test func anObservationLeavesWithItsOwner() {
    let operation = OwnedBlockOperation(lifetime: .forTests) {}
    var owner: TokenOwner? = TokenOwner()
    let captured = Mutexed<TokenOwner?>(TokenOwner())
    let hasGone = goodbye(of: captured.value!)
    operation.observe(\.queuePriority, owner: owner!) { [journal, object = captured.value] _, _, _ in
      journal.write("heard")
      withExtendedLifetime(object) {}
    }
    captured.value = nil
    operation.queuePriority = .high
    owner = nil
    operation.queuePriority = .low
    #expect(journal.entries == ["heard"])
    #expect(hasGone.waitUntilSignalled())  // though the operation is still there
    operation.start()
  }

  @Test func noHandlerBeginsAfterItsOwnersEnd() {
    let operation = OwnedBlockOperation(lifetime: .forTests) {}
    let (gate, lifetime, owner, done) = (Gate(), OwnerLifetime(), TokenOwner(), DispatchSemaphore(value: 0))
    operation.observe(\.queuePriority, lifetime: lifetime) { _, _ in gate.pass() }
    operation.observe(\.queuePriority, owner: owner) { [journal] _, _, _ in journal.write("late") }
    operation.observe(\.queuePriority, lifetime: lifetime) { [journal] _, _ in journal.write("heard") }
    Thread.detachNewThread {
      operation.queuePriority = .high
      done.signal()
    }
    #expect(gate.hasBegun())
    owner.lifetime.end()
    gate.open()
    #expect(done.waitUntilSignalled())
    #expect(journal.entries == ["heard"])
    operation.start()
  }

  @Test func anObservationCanBeInvalidatedAndLeavesNothing() {
    let operation = OwnedBlockOperation(lifetime: .forTests) {}
    let owner = TokenOwner()
    let observation = operation.observe(\.isFinished, owner: owner) { [journal] _, _, _ in journal.write("heard") }
    observation.invalidate()
    operation.start()
    #expect(journal.entries.isEmpty)
    for _ in 0..<1_000 { OwnedBlockOperation(lifetime: .forTests) {}.observe(\.state, owner: owner) { _, _, _ in }.invalidate() }
    #expect(owner.lifetime.memberCapacity <= 64)
  }

  @Test func observingForAnEndedOwnerDoesNothing() {
    let (operation, owner) = (OwnedBlockOperation(lifetime: .forTests) {}, TokenOwner())
    owner.lifetime.end()
    operation.observe(\.state, options: [.initial, .new], owner: owner) { [journal] _, _, _ in journal.write("heard") }
    operation.start()
    #expect(journal.entries.isEmpty)
  }
}
