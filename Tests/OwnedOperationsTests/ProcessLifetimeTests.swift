import Foundation
import Testing

@testable import OwnedOperations

/// The lifetime of the process never ends, and what has come and gone leaves nothing behind.
@Suite struct ProcessLifetimeTests {
  @Test func itIsAliveAndRunsWork() {
    let lifetime = OwnerLifetime.process
    #expect(lifetime.isAlive && lifetime.name == "process" && lifetime === OwnerLifetime.process)
    #expect(lifetime.endReason == nil && OwnerLifetime.isAlive(lifetime.id))
    let ran = DispatchSemaphore(value: 0)
    let queue = OwnerScopedQueue()
    queue.async(lifetime: .process) { ran.signal() }
    DispatchQueue.global().async(lifetime: .process) { ran.signal() }
    #expect(ran.waitUntilSignalled() && ran.waitUntilSignalled())
  }

  @Test func endingItStopsTheProcessWithAMessage() async {
    let child = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) { OwnerLifetime.process.end() }
    // Optimised builds stop without the message, as with every failed precondition.
    #if DEBUG
      let message = String(decoding: child?.standardErrorContent ?? [], as: UTF8.self)
      #expect(message.contains("OwnerLifetime.process can't be ended"))
    #else
      #expect(child != nil)
    #endif
  }

  @Test func itCanBeAParentAndHasNone() throws {
    let child = OwnerLifetime(parent: .process)
    #expect(child.parent === OwnerLifetime.process)
    child.end()
    #expect(!child.isAlive && OwnerLifetime.process.isAlive)
    let error = OwnerLifetimeError.neverEnds(OwnerLifetime.process.description)
    #expect(throws: error) { try OwnerLifetime.process.setParent(OwnerLifetime()) }
    #expect("\(error)".contains("never ends"))
  }

  @Test func childrenThatHaveGoneGiveTheirMemoryBack() {
    let lifetime = OwnerLifetime()
    let kept = OwnerLifetime(parent: lifetime)
    do {
      let children = (0..<10_000).map { _ in OwnerLifetime(parent: lifetime) }
      #expect(lifetime.childCount == 10_001)
      for child in children { child.end() }
    }
    #expect(lifetime.childCount == 1 && lifetime.childCapacity <= 64)
    lifetime.end()
    #expect(!kept.isAlive)
  }

  @Test func membersThatHaveGoneGiveTheirMemoryBack() {
    let lifetime = OwnerLifetime()
    let kept = OwnedBlockOperation(lifetime: lifetime) {}
    do {
      let operations = (0..<10_000).map { _ in OwnedBlockOperation(lifetime: lifetime) {} }
      #expect(lifetime.memberCapacity >= 10_001)
      for operation in operations { operation.start() }
    }
    #expect(lifetime.memberCapacity <= 64)
    lifetime.end()
    LifetimeReaper.waitUntilIdle()
    #expect(kept.isFinished)
  }

  @Test func cancelledHooksGiveTheirMemoryBack() {
    let lifetime = OwnerLifetime()
    let runs = Counter()
    lifetime.onEnd { _ in runs.add() }
    do {
      let hooks = (0..<10_000).map { _ in lifetime.onEnd { _ in runs.add() } }
      for hook in hooks { hook.cancel() }
    }
    #expect(lifetime.hookCapacity <= 64)
    lifetime.end()
    #expect(runs.value == 1)
  }
}
