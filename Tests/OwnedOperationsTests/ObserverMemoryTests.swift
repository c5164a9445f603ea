import CFoundationLocks
import Foundation
import Testing

@testable import OwnedOperations

/// What observers leave behind.
@Suite(.serialized) struct ObserverMemoryTests {
  @Test func observersOfDeadOwnersLeaveNothingInTheCenter() {
    let center = NotificationCenter()
    let count = Sanitizer.isActive ? 2_000 : 100_000
    for _ in 0..<count { center.observe(.first, owner: TokenOwner()) { _, _ in } }
    LifetimeReaper.waitUntilIdle()
    #expect(center.hasNothing)
  }

  @Test func anObservationThatIsOverGoes() {
    let (center, object) = (NotificationCenter(), Tokenless())
    weak var observation: OwnedObservation?
    do {
      let owner = TokenOwner()
      observation = center.observe(.first, object: object, owner: owner) { _, _ in }
      #expect(observation != nil)
    }
    LifetimeReaper.waitUntilIdle()
    #expect(observation == nil)
  }

  @Test func aCenterKeepsNotManyMoreThanAreThere() {
    let center = NotificationCenter()
    let steady = OwnerLifetime()
    for _ in 0..<10 { center.observe(.first, lifetime: steady) { _ in } }
    do {
      let owners = (0..<1_000).map { _ in TokenOwner() }
      for owner in owners { center.observe(.first, owner: owner) { _, _ in } }
      // An optimised build lets go of them after their last use, which would be the loop.
      withExtendedLifetime(owners) { #expect(center.observed == (1_010, 1)) }
    }
    LifetimeReaper.waitUntilIdle()
    #expect(center.observed.observations <= 20)
  }

  @Test func observersOfAnOperationComeAndGoBesideManyThatStay() {
    /// Counts how often it is looked at.
    final class Registration: ObserverRegistration {
      let keys = ObservedKeys.state
      let options: OperationObservation.Options = []
      let looks: Counter
      let isOver: Bool
      init(_ looks: Counter, isOver: Bool) { (self.looks, self.isOver) = (looks, isOver) }
      var hasEnded: Bool {
        looks.add()
        return isOver
      }
      func deliverInitial(_ operation: OwnedOperation, _ values: ObservedValues) {}
      func deliverPrior(_ operation: OwnedOperation, _ values: ObservedValues) {}
      func deliver(_ operation: OwnedOperation, _ entry: ObserverList.Entry) {}
      func end() {}
    }
    let (list, looks) = (ObserverList(), Counter())
    var added = 0
    func add(isOver: Bool) {
      list.add(Registration(looks, isOver: isOver), nil)
      added += 1
    }
    // Up to the edge of the memory that the list has.
    while added < 5_000 || list.listed.count + 1 < list.listed.capacity { add(isOver: false) }
    let lasting = added
    for _ in 0..<lasting { add(isOver: true) }
    #expect(looks.value < 8 * added)
    #expect(list.listed.count <= 2 * lasting + 1)
  }

  #if os(Linux)
    // In a process of its own, so that the memory is of nothing else.
    @Test func aHundredThousandObserversOfDeadOwnersLeaveNoMemory() async {
      let child = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
        let count = Sanitizer.isActive ? 2_000 : 100_000
        let (center, object) = (NotificationCenter(), Tokenless())
        func cycle(_ count: Int) {
          var owners = (0..<count).map { _ in TokenOwner() }
          for (index, owner) in owners.enumerated() {
            center.observe(index % 2 == 0 ? .first : nil, object: index % 5 == 0 ? object : nil, owner: owner) { _, _ in }
          }
          center.post(name: .first, object: object)
          owners = []
          LifetimeReaper.waitUntilIdle()
        }
        // What is allocated, over all heaps. Resident memory says more of how these are cut up.
        func allocated() -> Int { Int(allocated_bytes()) }
        cycle(count)
        let before = allocated()
        for _ in 0..<4 { cycle(count) }
        let growth = allocated() - before
        print("observer figures: 4 times \(count) observers have come and gone; \(growth >> 10) KiB more are allocated")
        // A leaked object is at least 32 bytes: one for each would be 12 MiB. What threads keep for their next allocation counts as well.
        // AddressSanitizer has a heap of its own, and reports leaks itself.
        exit(center.hasNothing && (growth < 2 << 20 || Sanitizer.isActive) ? EXIT_SUCCESS : EXIT_FAILURE)
      }
      for line in String(decoding: child?.standardOutputContent ?? [], as: UTF8.self).split(separator: "\n")
      where line.hasPrefix("observer figures") { print(line) }
    }
  #endif
}
