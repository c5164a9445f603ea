import Foundation
import Testing

@testable import OwnedOperations

/// Posts that meet ends, removals, switches and other posts.
@Suite struct ObserverRaceTests {
  private let center = NotificationCenter()
  private let journal = Journal<String>()

  /// Holds a post up in front of the observers behind, while `body` runs.
  private func whilePosting(_ body: () -> Void) {
    let (gate, lifetime, posted) = (Gate(), OwnerLifetime(), DispatchSemaphore(value: 0))
    center.observe(.first, lifetime: lifetime, level: 9) { _ in gate.pass() }
    Thread.detachNewThread { [center] in
      center.post(name: .first, object: nil)
      posted.signal()
    }
    #expect(gate.hasBegun())
    body()
    gate.open()
    #expect(posted.waitUntilSignalled())
    lifetime.end()
  }

  // MARK: Ends

  @Test func noHandlerBeginsAfterItsOwnersEnd() {
    var owner: TokenOwner? = TokenOwner()
    let (stays, ended) = (TokenOwner(), TokenOwner())
    for observer in [owner!, stays, ended] {
      center.observe(.first, owner: observer) { [journal] owner, _ in journal.write(owner.lifetime.isAlive ? "alive" : "ended") }
    }
    whilePosting {
      owner = nil
      ended.lifetime.end()
    }
    #expect(journal.entries == ["alive"])
    withExtendedLifetime((stays, ended)) {}
  }

  @Test func noHandlerBeginsAfterItWasRemoved() {
    let lifetime = OwnerLifetime()
    let invalidated = center.observe(.first, lifetime: lifetime) { [journal] _ in journal.write("invalidated") }
    center.observe(.first, lifetime: lifetime, level: .low) { [journal] _ in journal.write("removed") }
    center.observe(.first, lifetime: lifetime) { [journal] _ in journal.write("stays") }
    whilePosting {
      invalidated.invalidate()
      center.removeObservers(level: .low)
    }
    #expect(journal.entries == ["stays"])
  }

  @Test func aHandlerThatRunsIsNotWaitedFor() {
    let (lifetime, gate, posted) = (OwnerLifetime(), Gate(), DispatchSemaphore(value: 0))
    let observation = center.observe(.first, lifetime: lifetime) { [journal] _ in
      gate.pass()
      journal.write("ran")
    }
    Thread.detachNewThread { [center] in
      center.post(name: .first, object: nil)
      posted.signal()
    }
    #expect(gate.hasBegun())
    #expect(returns { self.center.removeObservers(ownedBy: lifetime) })
    #expect(!observation.isValid && journal.entries.isEmpty)
    gate.open()
    #expect(posted.waitUntilSignalled())
    #expect(journal.entries == ["ran"])
  }

  @Test func anObservationMadeDuringAPostIsNotPartOfIt() {
    let lifetime = OwnerLifetime()
    whilePosting { center.observe(.first, lifetime: lifetime) { [journal] _ in journal.write("heard") } }
    #expect(journal.entries.isEmpty)
    center.post(name: .first, object: nil)
    #expect(journal.entries == ["heard"])
  }

  // MARK: Reentrancy

  @Test func aHandlerMayPostObserveAndEndItselfAndOthers() {
    let lifetime = OwnerLifetime()
    let own = Mutexed<OwnedObservation?>(nil)
    let other = Mutexed<OwnedObservation?>(nil)
    own.value = center.observe(.first, lifetime: lifetime) { [center, journal] _ in
      journal.write("first")
      own.value?.invalidate()
      other.value?.invalidate()
      center.observe(.first, lifetime: lifetime) { _ in journal.write("new") }
      center.removeObservers(ownedBy: lifetime, named: .second, level: .low)
      center.post(name: .second, object: nil)
    }
    other.value = center.observe(.first, lifetime: lifetime) { [journal] _ in journal.write("other") }
    center.observe(.second, lifetime: lifetime, level: .low) { [journal] _ in journal.write("removed") }
    center.observe(.second, lifetime: lifetime) { [center, journal] _ in
      journal.write("second")
      center.post(name: .first, object: nil)
    }
    #expect(returns { self.center.post(name: .first, object: nil) })
    // The nested post of the first name is for the new observer.
    #expect(journal.entries == ["first", "second", "new"])
  }

  @Test func aHandlerMayEndItsOwner() {
    let lifetime = OwnerLifetime()
    for _ in 0..<2 {
      center.observe(.first, lifetime: lifetime) { [journal] _ in
        journal.write("ran")
        lifetime.end()
      }
    }
    center.post(name: .first, object: nil)
    #expect(journal.entries == ["ran"])
  }

  @Test func aHandlerMayLetGoOfTheLastReferenceToItsOwner() {
    let holder = Mutexed<TokenOwner?>(TokenOwner())
    let isGone = goodbye(of: holder.value!)
    let lifetime = holder.value!.lifetime
    center.observe(.first, owner: holder.value!) { [journal] owner, _ in
      holder.value = nil
      journal.write(owner.lifetime.isAlive ? "still there" : "gone")
    }
    center.observe(.first, owner: holder.value!) { [journal] _, _ in journal.write("late") }
    center.post(name: .first, object: nil)
    // The first handler's reference was the last, and went with it.
    #expect(journal.entries == ["still there"] && !lifetime.isAlive)
    #expect(isGone.waitUntilSignalled())
  }

  @Test func anOwnerThatOnlyItsHandlersHoldIsSkippedUntilItIsHandedOn() {
    let holder = Mutexed<TokenOwner?>(TokenOwner())
    center.observe(.first, owner: holder.value!) { [center, journal] owner, _ in
      holder.value = nil
      center.post(name: .second, object: nil)  // only this handler holds the owner
      holder.value = owner
      center.post(name: .second, object: nil)
      journal.write("over")
    }
    center.observe(.second, owner: holder.value!) { [journal] _, _ in journal.write("second") }
    center.post(name: .first, object: nil)
    #expect(journal.entries == ["second", "over"] && holder.value != nil)
  }

  // MARK: Switching

  /// Chooses as it was told by its seed.
  private struct Choices: RandomNumberGenerator {
    var state: UInt64
    mutating func next() -> UInt64 {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return state >> 16 | state << 48
    }
  }

  private final class Observer {
    let calls = Counter()
    let name: Notification.Name?
    let observation: OwnedObservation
    init(_ name: Notification.Name?, _ center: StepwiseCenter, _ lifetime: OwnerLifetime) {
      let calls = calls
      self.name = name
      observation = center.observe(name, lifetime: lifetime) { _ in calls.add() }
    }
  }

  /// Observers of one name, of another and of all names come and go between the steps of posts that overlap. Whoever is there from before a
  /// post until after it hears it once; whoever comes or goes meanwhile, at most once.
  @Test func switchingToAllNamesAndBackNeitherLosesNorDoublesAPost() {
    let lifetime = OwnerLifetime()
    for seed in 1...3_000 {
      var choices = Choices(state: UInt64(seed))
      let center = StepwiseCenter()
      var observers: [Observer] = []
      var failures = 0
      func change() {
        if observers.isEmpty || Int.random(in: 0..<5, using: &choices) < 3 {
          observers.append(Observer([nil, .first, .second].randomElement(using: &choices) ?? nil, center, lifetime))
        } else {
          observers.remove(at: Int.random(in: 0..<observers.count, using: &choices)).observation.invalidate()
        }
      }
      for _ in 0..<6 {
        for _ in 0..<Int.random(in: 0..<3, using: &choices) { change() }
        let concerned = observers.filter { $0.name != .second }
        let before = concerned.map(\.calls.value)
        for call in center.beginPost(.first).shuffled(using: &choices) {
          for _ in 0..<Int.random(in: 0..<4, using: &choices) { change() }
          call()
        }
        for (observer, before) in zip(concerned, before) {
          let calls = observer.calls.value - before
          if observer.observation.isValid ? calls != 1 : calls > 1 { failures += 1 }
        }
      }
      #expect(failures == 0, "seed \(seed)")
      for observer in observers { observer.observation.invalidate() }
      #expect(center.registrationCount == 0 && center.hasNothing, "seed \(seed)")
    }
  }

  @Test func threadsThatPostObserveAndEndAtTheSameTimeLeaveNothing() {
    let stepwise = StepwiseCenter()
    let body: @Sendable (Notification) -> Void = { _ in }
    stress(stepwise) { stepwise.post(.first, $0) }
    // Foundation's own lock is hidden from ThreadSanitizer.
    if !Sanitizer.isThread { stress(center) { [center] in center.post(name: .first, object: $0) } }

    func stress(_ center: some ObservableCenter, _ post: @escaping @Sendable (Any?) -> Void) {
      let heard = Counter()
      let steady = OwnerLifetime()
      _ = center.observe(.first, nil, steady, .normal, ObservationHandler(nil) { _ in heard.add() })
      let rounds = Sanitizer.isActive ? 200 : 2_000
      race([
        { for _ in 0..<rounds { post(nil) } },
        { for _ in 0..<rounds { post(NSNumber(value: 1)) } },
        {
          for index in 0..<rounds {
            let owner = TokenOwner()
            let handler = ObservationHandler(owner, owner.lifetime, nil) { owner, _ in
              if !owner.lifetime.isAlive { Issue.record("called for an owner that nobody could hold") }
            }
            _ = center.observe(index % 3 == 0 ? nil : .first, nil, owner.lifetime, .normal, handler)
            _ = center.observe(.second, owner, owner.lifetime, .high, ObservationHandler(nil, body))
          }
        },
        {
          for _ in 0..<rounds {
            center.observe(nil, nil, steady, .low, ObservationHandler(nil, body)).invalidate()
            let selection = ObservationTable.Selection(name: .second)
            for observation in ObservationTables.existing(center)?.observations(in: selection) ?? [] { observation.invalidate() }
          }
        },
      ])
      #expect(heard.value == 2 * rounds)
      steady.end()
      LifetimeReaper.waitUntilIdle()
      #expect(center.hasNothing)
    }
  }
}
