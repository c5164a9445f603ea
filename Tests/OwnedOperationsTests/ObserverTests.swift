import Foundation
import Testing

@testable import OwnedOperations

/// Who is called, in which order, and who leaves when.
@Suite struct ObserverTests {
  private let center = NotificationCenter()
  private let journal = Journal<String>()

  private func post(_ name: Notification.Name = .first, _ object: Any? = nil) { center.post(name: name, object: object) }

  // MARK: Forms

  @Test func everyFormCallsItsBody() {
    let (tokenOwner, plainOwner, lifetime) = (TokenOwner(), Tokenless(), OwnerLifetime())
    center.observe(.first, owner: tokenOwner) { [journal] owner, notification in
      journal.write("token \(owner.lifetime.isAlive) \(notification.name.rawValue)")
    }
    center.observe(.first, owner: plainOwner) { [journal] owner, notification in
      journal.write("plain \(OwnerLifetime.of(owner).isAlive) \(notification.name.rawValue)")
    }
    center.observe(.first, lifetime: lifetime) { [journal] notification in journal.write("lifetime \(notification.name.rawValue)") }
    post()
    post(.second)
    #expect(journal.entries == ["token true first", "plain true first", "lifetime first"])
    withExtendedLifetime((tokenOwner, plainOwner)) {}
  }

  @Test func theNotificationComesWhole() {
    final class Sender: Sendable {}
    let (sender, lifetime) = (Sender(), OwnerLifetime())
    let isWhole = Counter()
    let address = ObjectIdentifier(sender)
    center.observe(.first, lifetime: lifetime) { notification in
      let comesFrom = (notification.object as? Sender).map { ObjectIdentifier($0) }
      if comesFrom == address, notification.userInfo?["key"] as? Int == 7 { isWhole.add() }
    }
    center.post(name: .first, object: sender, userInfo: ["key": 7])
    #expect(isWhole.value == 1)
  }

  // MARK: Order

  @Test func higherLevelsComeFirstWhoeverOwnsThem() {
    let owners = [OwnerLifetime(), OwnerLifetime()]
    let levels: [(ObserverLevel, String)] = [
      (.normal, "normal 1"), (.low, "low"), (.high, "high 1"), (0.5, "between"), (.normal, "normal 2"), (7, "seven"), (.high, "high 2"),
    ]
    for (index, (level, name)) in levels.enumerated() {
      center.observe(.first, lifetime: owners[index % 2], level: level) { [journal] _ in journal.write(name) }
    }
    post()
    #expect(journal.entries == ["seven", "high 1", "high 2", "between", "normal 1", "normal 2", "low"])
  }

  @Test func orderHoldsAcrossNamesAndObjects() {
    let (lifetime, object) = (OwnerLifetime(), Tokenless())
    func observe(_ name: Notification.Name?, _ object: AnyObject?, _ level: ObserverLevel, _ text: String) {
      center.observe(name, object: object, lifetime: lifetime, level: level) { [journal] _ in journal.write(text) }
    }
    observe(.first, nil, .normal, "2 name")
    observe(nil, object, .normal, "3 object, all names")
    observe(nil, nil, .normal, "4 all names")
    observe(.first, object, .normal, "5 name, object")
    observe(.first, object, .high, "0 name, object")
    observe(nil, nil, .high, "1 all names")
    observe(.first, nil, .low, "6 name")
    post(.first, object)
    #expect(journal.entries == journal.entries.sorted() && journal.entries.count == 7)
  }

  @Test func levelsCompareAsTheirNumbers() {
    #expect([ObserverLevel.high, .low, 0.25, .normal, 3].sorted() == [.low, .normal, 0.25, .high, 3])
    #expect(ObserverLevel(0) == .normal && ObserverLevel(-.infinity) < .low)
  }

  @Test func aLevelThatIsNoNumberStopsTheProcessWithAMessage() async {
    let child = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) { _ = ObserverLevel(.nan) }
    #if DEBUG
      let message = String(decoding: child?.standardErrorContent ?? [], as: UTF8.self)
      #expect(message.contains("has no place among other levels"))
    #else
      #expect(child != nil)
    #endif
  }

  // MARK: Objects

  @Test func onlyPostsOfTheObjectAreHeard() {
    let (lifetime, plain, other, number) = (OwnerLifetime(), Tokenless(), Tokenless(), NSNumber(value: 7))
    center.observe(.first, object: plain, lifetime: lifetime) { [journal] _ in journal.write("plain") }
    center.observe(.first, object: number, lifetime: lifetime) { [journal] _ in journal.write("NSObject") }
    post(.first, plain)
    post(.first, other)
    post(.first, number)
    post(.first, 42)
    post(.first, nil)
    #expect(journal.entries == ["plain", "NSObject"])
  }

  @Test func anObservationLeavesWithItsObject() {
    let lifetime = OwnerLifetime()
    var object: TokenOwner? = TokenOwner()
    let observation = center.observe(.first, object: object, lifetime: lifetime) { [journal] _ in journal.write("heard") }
    #expect(observation.isValid)
    object = nil
    #expect(!observation.isValid && lifetime.isAlive)
    LifetimeReaper.waitUntilIdle()
    #expect(center.hasNothing)
  }

  @Test func theObjectsTokenDoesNotEndAnObservationByHand() {
    let (lifetime, object) = (OwnerLifetime(), TokenOwner())
    let observation = center.observe(.first, object: object, lifetime: lifetime) { [journal] _ in journal.write("heard") }
    object.lifetime.end()
    post(.first, object)
    #expect(observation.isValid && journal.entries == ["heard"])
  }

  @Test func anObjectThatPostsFromItsDeinitIsNotHeardByThoseWhoObserveIt() {
    final class Poster: OperationOwner, Sendable {
      let lifetimeToken = OwnerLifetime.Token()
      let center: NotificationCenter
      init(_ center: NotificationCenter) { self.center = center }
      deinit { center.post(name: .first, object: self) }
    }
    let lifetime = OwnerLifetime()
    do {
      let poster = Poster(center)
      center.observe(.first, object: poster, lifetime: lifetime) { [journal] _ in journal.write("object") }
      center.observe(.first, lifetime: lifetime) { [journal] _ in journal.write("any") }
    }
    #expect(journal.entries == ["any"])
  }

  @Test func anObjectAtTheAddressOfOneThatHasGoneIsNotTakenForIt() {
    let lifetime = OwnerLifetime()
    for _ in 0..<100 {
      let object = Tokenless()
      center.observe(.first, object: object, lifetime: lifetime) { [journal] _ in journal.write("heard") }
    }
    post(.first, Tokenless())
    #expect(journal.entries.isEmpty)
  }

  // MARK: Ends

  @Test func anObservationLeavesWithItsOwner() {
    var owner: TokenOwner? = TokenOwner()
    var captured: TokenOwner? = TokenOwner()
    let hasGone = goodbye(of: captured!)
    let observation = center.observe(.first, owner: owner!) { [captured, journal] _, _ in
      journal.write("heard")
      withExtendedLifetime(captured) {}
    }
    captured = nil
    post()
    owner = nil
    post()
    #expect(!observation.isValid)
    #expect(hasGone.waitUntilSignalled())
    LifetimeReaper.waitUntilIdle()
    #expect(journal.entries == ["heard"] && center.hasNothing)
  }

  @Test func nothingIsKept() {
    weak var owner: TokenOwner?
    weak var object: Tokenless?
    weak var table: ObservationTable?
    weak var center: NotificationCenter?
    let observation: OwnedObservation
    do {
      let (newOwner, newObject, newCenter) = (TokenOwner(), Tokenless(), NotificationCenter())
      (owner, object, center) = (newOwner, newObject, newCenter)
      observation = newCenter.observe(.first, object: newObject, owner: newOwner) { _, _ in }
      newCenter.observe(nil, owner: newOwner) { _, _ in }
      table = ObservationTables.existing(newCenter)
      #expect(table != nil)
    }
    #expect(owner == nil && object == nil && center == nil && !observation.isValid)
    LifetimeReaper.waitUntilIdle()
    #expect(table == nil)
  }

  @Test func aCenterThatGoesEndsItsObservations() {
    let owner = TokenOwner()
    var center: NotificationCenter? = NotificationCenter()
    var captured: TokenOwner? = TokenOwner()
    let hasGone = goodbye(of: captured!)
    let observation = center!.observe(.first, owner: owner) { [captured] _, _ in withExtendedLifetime(captured) {} }
    captured = nil
    #expect(observation.isValid)
    center = nil
    #expect(!observation.isValid && hasGone.waitUntilSignalled())
  }

  @Test func observingForAnEndedOwnerDoesNothing() {
    let lifetime = OwnerLifetime()
    lifetime.end()
    let observation = center.observe(.first, lifetime: lifetime) { [journal] _ in journal.write("heard") }
    post()
    #expect(!observation.isValid && journal.entries.isEmpty && center.hasNothing)
  }

  @Test func invalidatingReleasesTheBodyAtOnce() {
    let owner = TokenOwner()
    weak var captured: TokenOwner?
    let observation: OwnedObservation
    do {
      let object = TokenOwner()
      captured = object
      observation = center.observe(.first, owner: owner) { _, _ in withExtendedLifetime(object) {} }
    }
    #expect(captured != nil)
    observation.invalidate()
    observation.invalidate()
    #expect(captured == nil && !observation.isValid && center.hasNothing)
    post()
  }

  @Test func oneOfSeveralObjectsThatShareATokenIsNotCalledOnceItHasGone() {
    final class Part: OperationOwner, Sendable {
      let lifetimeToken: OwnerLifetime.Token
      init(_ token: OwnerLifetime.Token) { lifetimeToken = token }
    }
    let token = OwnerLifetime.Token()
    let stays = Part(token)
    var goes: Part? = Part(token)
    center.observe(.first, owner: stays) { [journal] _, _ in journal.write("stays") }
    let observation = center.observe(.first, owner: goes!) { [journal] _, _ in journal.write("goes") }
    post()
    goes = nil
    post()
    #expect(journal.entries == ["stays", "goes", "stays"] && !observation.isValid)
    withExtendedLifetime(stays) {}
  }

  // MARK: Removing

  @Test func observersAreRemovedByOwnerObjectNameAndLevelAloneOrTogether() {
    let owners = [OwnerLifetime(), OwnerLifetime()]
    let objects = [Tokenless(), Tokenless()]
    let (names, levels) = ([Notification.Name.first, .second], [ObserverLevel.normal, .high])
    func check(_ remove: (NotificationCenter) -> Void, _ isRemoved: (_ owner: Int, _ object: Int?, _ name: Int?, _ level: Int) -> Bool) {
      let center = NotificationCenter()
      var observations: [(OwnedObservation, Bool)] = []
      for owner in 0..<2 {
        for level in 0..<2 {
          for name in [0, 1, nil] {
            for object in [0, 1, nil] {
              let observation = center.observe(
                name.map { names[$0] }, object: object.map { objects[$0] }, lifetime: owners[owner], level: levels[level]
              ) { _ in }
              observations.append((observation, isRemoved(owner, object, name, level)))
            }
          }
        }
      }
      remove(center)
      #expect(observations.allSatisfy { $0.isValid != $1 } && observations.contains { $1 } && observations.contains { !$1 })
    }
    check({ $0.removeObservers(ownedBy: owners[0]) }, { owner, _, _, _ in owner == 0 })
    check({ $0.removeObservers(of: objects[1]) }, { _, object, _, _ in object == 1 })
    check({ $0.removeObservers(named: .second) }, { _, _, name, _ in name == 1 })
    check({ $0.removeObservers(level: .high) }, { _, _, _, level in level == 1 })
    check({ $0.removeObservers(ownedBy: owners[1], of: objects[0]) }, { owner, object, _, _ in owner == 1 && object == 0 })
    check({ $0.removeObservers(ownedBy: owners[1], named: .first) }, { owner, _, name, _ in owner == 1 && name == 0 })
    check({ $0.removeObservers(ownedBy: owners[1], level: .normal) }, { owner, _, _, level in owner == 1 && level == 0 })
    check({ $0.removeObservers(of: objects[0], named: .first) }, { _, object, name, _ in object == 0 && name == 0 })
    check({ $0.removeObservers(of: objects[0], level: .high) }, { _, object, _, level in object == 0 && level == 1 })
    check({ $0.removeObservers(named: .first, level: .high) }, { _, _, name, level in name == 0 && level == 1 })
    check(
      { $0.removeObservers(ownedBy: owners[0], of: objects[0], named: .first, level: .high) },
      { owner, object, name, level in owner == 0 && object == 0 && name == 0 && level == 1 })
  }

  @Test func removingWhereNobodyObservesDoesNothing() {
    center.removeObservers(named: .first)
    center.removeObservers(ownedBy: OwnerLifetime(), level: .low)
    #expect(center.hasNothing)
  }

  // MARK: Registrations with Foundation

  @Test func aNameIsRegisteredOnceWhateverTheObjects() {
    let center = StepwiseCenter()
    let (lifetime, object) = (OwnerLifetime(), Tokenless())
    for _ in 0..<10 {
      _ = center.observe(.first, lifetime: lifetime) { _ in }
      _ = center.observe(.first, object: object, lifetime: lifetime) { _ in }
    }
    #expect(center.registrationCount == 1)
    _ = center.observe(.second, lifetime: lifetime) { _ in }
    #expect(center.registrationCount == 2)
    lifetime.end()
    LifetimeReaper.waitUntilIdle()
    #expect(center.registrationCount == 0 && center.hasNothing)
  }

  @Test func whileAllNamesAreObservedOneRegistrationDoes() {
    let center = StepwiseCenter()
    let (lifetime, everything) = (OwnerLifetime(), OwnerLifetime())
    _ = center.observe(nil, lifetime: everything) { _ in }
    for index in 0..<10 { _ = center.observe(Notification.Name("name \(index)"), lifetime: lifetime) { _ in } }
    #expect(center.registrationCount == 1)
    everything.end()
    LifetimeReaper.waitUntilIdle()
    // The names that were made meanwhile keep it; a new one gets a registration.
    #expect(center.registrationCount == 1)
    _ = center.observe(.first, lifetime: lifetime) { _ in }
    #expect(center.registrationCount == 2)
    lifetime.end()
    LifetimeReaper.waitUntilIdle()
    #expect(center.registrationCount == 0 && center.hasNothing)
  }
}
