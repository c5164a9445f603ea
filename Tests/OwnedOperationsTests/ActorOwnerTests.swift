import Foundation
import Testing

@testable import OwnedOperations

private class Controller: NSObject {
  var titles: [String] = []
}

@globalActor private actor Database {
  static let shared = Database()
}

@Database private final class Store {
  var rows: [Int] = []
  let controller = Controller()

  func load(on queue: OwnerScopedQueue, done: CheckedContinuation<Void, Never>) {
    queue.run(for: self) {
      [1, 2]
    } then: { store, result in
      Database.shared.preconditionIsolated()
      store.rows = (try? result.get()) ?? []
      done.resume()
    }
  }

  /// Of an owner that isn't Sendable, in this actor's care.
  func loadController(on queue: OwnerScopedQueue, done: CheckedContinuation<Void, Never>) {
    queue.run(for: controller) {
      await Task.yield()
      return "row"
    } then: { controller, result in
      Database.shared.preconditionIsolated()
      controller.titles.append((try? result.get()) ?? "none")
      done.resume()
    }
  }

  var titles: [String] { controller.titles }
}

private actor Bank {
  var balance = 0

  func earn(on queue: OwnerScopedQueue, done: CheckedContinuation<Void, Never>) {
    queue.run(for: self) {
      5
    } then: { bank, result in
      bank.balance += (try? result.get()) ?? 0
      done.resume()
    }
  }

  func block(_ gate: Gate) { gate.pass() }
}

/// Keeps an owner that isn't Sendable.
private actor Holder {
  private let controller = Controller()

  func load(on queue: OwnerScopedQueue, gate: Gate, _ captured: DeinitProbe) {
    queue.run(for: controller) {
      gate.pass()
    } then: { _, _ in
      captured.mustNotRun()
    }
  }
}

/// Owners that live on an actor other than the main one, or are one.
@Suite(.serialized) struct ActorOwnerTests {
  private let queue = OwnerScopedQueue()

  /// `waitUntilFinished`, which is not for asynchronous code.
  private func block(until operation: OwnedOperation) { operation.waitUntilFinished() }

  @Test func handlersComeBackToAGlobalActor() async {
    let store = await Store()
    let queue = queue
    await withCheckedContinuation { continuation in Task { await store.load(on: queue, done: continuation) } }
    await withCheckedContinuation { continuation in Task { await store.loadController(on: queue, done: continuation) } }
    #expect(await store.rows == [1, 2])
    #expect(await store.titles == ["row"])
  }

  @Test func actorsAreOwners() async {
    let bank = Bank()
    let queue = queue
    await withCheckedContinuation { continuation in Task { await bank.earn(on: queue, done: continuation) } }
    await withCheckedContinuation { continuation in
      queue.run(for: bank) {
        await Task.yield()
        return 2
      } then: { bank, result in
        bank.balance += (try? result.get()) ?? 0
        continuation.resume()
      }
    }
    #expect(await bank.balance == 7)
  }

  /// The handler is in the actor's mailbox when the owner ends.
  @Test func aHandlerThatWaitsForAnActorNeverRunsAfterTheEnd() async {
    let bank = Bank()
    let gate = Gate()
    let live = LiveCount()
    let blocked = Task.detached { await bank.block(gate) }
    #expect(gate.hasBegun())
    let lifetime = OwnerLifetime.of(bank)
    do {
      let captured = live.makeMember()
      block(until: queue.run(for: bank, {}, then: { _, _ in captured.mustNotRun() }))
    }
    lifetime.end()
    #expect(live.becomesZero())
    gate.open()
    await blocked.value
    #expect(await bank.balance == 0)
  }

  @Test func workDoesNotHoldAnActor() {
    let gate = Gate()
    let live = LiveCount()
    let gone: DispatchSemaphore
    do {
      let bank = Bank()
      gone = goodbye(of: bank)
      let captured = live.makeMember()
      queue.run(for: bank, { gate.pass() }, then: { _, _ in captured.mustNotRun() })
      #expect(gate.hasBegun())
    }
    #expect(gone.waitUntilSignalled())
    #expect(live.becomesZero())
    gate.open()
  }

  /// The actor that keeps the owner isn't held by the owner's work either.
  @Test func workDoesNotHoldTheActorThatKeepsItsOwner() async {
    let gate = Gate()
    let live = LiveCount()
    let gone: DispatchSemaphore
    do {
      let holder = Holder()
      gone = goodbye(of: holder)
      await holder.load(on: queue, gate: gate, live.makeMember())
      #expect(gate.hasBegun())
    }
    #expect(gone.waitUntilSignalled())
    #expect(live.becomesZero())
    gate.open()
  }
}
