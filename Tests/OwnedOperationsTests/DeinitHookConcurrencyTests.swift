import Foundation
import Testing

@testable import OwnedOperations

/// Runs the body on so many threads at once and waits for all of them.
private func race(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) {
  let gate = DispatchSemaphore(value: 0)
  let threads = DispatchGroup()
  for index in 0..<count {
    threads.enter()
    Thread.detachNewThread {
      gate.wait()
      body(index)
      threads.leave()
    }
  }
  for _ in 0..<count { gate.signal() }
  threads.wait()
}

/// Generic, so that each depth of nesting is another class, with metadata made at run time.
private class Specimen<Marker>: @unchecked Sendable {  // constant
  let deinits: HookCounter
  required init(_ deinits: HookCounter) { self.deinits = deinits }
  deinit { deinits.add() }
}

private enum Nested<Inner> {}

@Suite struct DeinitHookConcurrencyTests {
  /// For `depth` classes that nobody hooked before: eight threads hook instances of it, or let unhooked ones die, all at once.
  private func hookAndFree<Marker>(_: Marker.Type, depth: Int) {
    let deinits = HookCounter()
    let runs = HookCounter()
    race(8) { index in
      for round in 0..<20 {
        let object = Specimen<Marker>(deinits)
        if (index + round) % 2 == 0 { onDeinit(of: object) { _, _ in runs.add() } }
      }
    }
    #expect(deinits.count == 160)
    #expect(runs.count == 80)
    if depth > 1 { hookAndFree(Nested<Marker>.self, depth: depth - 1) }
  }

  @Test func classesAreHookedForTheFirstTimeWhileTheirInstancesDie() {
    hookAndFree(Int.self, depth: 100)
  }

  @Test func hooksRunOnceWhileOthersAreInstalledAndTablesGrow() {
    let runs = HookCounter()
    let deinits = HookCounter()
    race(8) { index in
      var kept: [Specimen<String>] = []
      for round in 0..<5_000 {
        let object = Specimen<String>(deinits)
        onDeinit(of: object) { dying, _ in
          runs.add()
          dying._withUnsafeGuaranteedRef { #expect($0.deinits === deinits) }
        }
        if round % 3 != index % 3 { kept.append(object) }
        if kept.count > 1_500 { kept.removeFirst(1_000) }
      }
    }
    #expect(runs.count == 40_000 && deinits.count == 40_000)
  }

  @Test func cancelAndTheEndAgreeOnWhoTookTheHook() {
    let runs = HookCounter()
    let cancels = HookCounter()
    let rounds = 2_000
    for _ in 0..<rounds {
      let object = Guarded<Specimen<Bool>?>(Specimen<Bool>(HookCounter()))
      let hooks = object.withLock { object in (0..<4).map { _ in onDeinit(of: object!) { _, _ in runs.add() } } }
      DispatchQueue.concurrentPerform(iterations: 2) { side in
        if side == 0 {
          let last = object.withLock { $0.take() }
          withExtendedLifetime(last) {}
        } else {
          for hook in hooks.reversed() where hook.cancel() { cancels.add() }
        }
      }
    }
    #expect(runs.count + cancels.count == rounds * 4)
  }

  @Test func replacingByNameFromEightThreadsLeavesOneHook() {
    let runs = HookCounter()
    let object = Guarded<Specimen<Double>?>(Specimen(HookCounter()))
    race(8) { _ in
      guard let shared = object.withLock({ $0 }) else { return }
      for _ in 0..<500 { onDeinit(of: shared, name: "one") { _, _ in runs.add() } }
    }
    #expect(runs.count == 0)
    object.withLock { $0 = nil }
    #expect(runs.count == 1)
  }

  @Test func objectsFreedOnAnotherThreadThanTheirHookWasInstalledOn() {
    let runs = HookCounter()
    let deinits = HookCounter()
    let hand = Guarded<[Specimen<UInt>]>([])
    let full = DispatchSemaphore(value: 0)
    race(2) { side in
      for _ in 0..<200 {
        if side == 0 {
          let batch = (0..<50).map { _ in Specimen<UInt>(deinits) }
          for object in batch { onDeinit(of: object) { _, _ in runs.add() } }
          hand.withLock { $0 += batch }
          full.signal()
        } else {
          full.wait()
          let batch = hand.withLock { batch in
            defer { batch = [] }
            return batch
          }
          withExtendedLifetime(batch) {}
        }
      }
    }
    hand.withLock { $0 = [] }
    #expect(runs.count == 10_000 && deinits.count == 10_000)
  }
}
