import Foundation
import Testing

@testable import OwnedOperations

@Suite struct ObjectLifetimeTests {
  private final class Plain: Sendable {}
  private class Base {}
  private final class Derived: Base {}
  private actor Actor {}

  @Test func anyObjectHasOneLifetimeThatEndsWithIt() {
    var object: Plain? = Plain()
    let lifetime = OwnerLifetime.of(object!)
    #expect(OwnerLifetime.of(object!) === lifetime)
    #expect(OwnerLifetime.of(Plain()) !== lifetime)
    let journal = Journal<OwnerID>()
    lifetime.onEnd { journal.write($0) }
    #expect(lifetime.isAlive)
    object = nil
    #expect(!lifetime.isAlive)
    #expect(journal.entries == [lifetime.id])
    #expect(lifetime.endReason == .objectDeinitialised)
  }

  @Test func objectsWithoutATokenOfManyKindsAreOwners() {
    func check(_ make: () -> AnyObject) {
      var object: AnyObject? = make()
      let lifetime = OwnerLifetime.of(object!)
      #expect(lifetime.isAlive)
      object = nil
      #expect(!lifetime.isAlive)
    }
    check { Derived() }
    check { Base() }
    check { Actor() }
    check { NSMutableData() }
    check { JSONDecoder() }
  }

  @Test func tokenOwnersKeepTheLifetimeOfTheirTokenWhateverTheirStaticType() {
    let owner = TokenOwner()
    #expect(OwnerLifetime.of(owner as AnyObject) === owner.lifetime)
  }

  @Test func lifetimeOfADeinitialisingObjectIsBornEnded() {
    final class Late {
      let report: @Sendable (OwnerLifetime) -> Void
      init(_ report: @escaping @Sendable (OwnerLifetime) -> Void) { self.report = report }
      deinit { report(OwnerLifetime.of(self as AnyObject)) }
    }
    let journal = Journal<OwnerLifetime>()
    _ = Late { journal.write($0) }
    #expect(journal.entries.count == 1)
    #expect(journal.entries.allSatisfy { !$0.isAlive && $0.endReason == .objectDeinitialised })
  }

  @Test func eightThreadsGetTheSameLifetime() {
    for _ in 0..<200 {
      let object = Plain()
      let journal = Journal<ObjectIdentifier>()
      DispatchQueue.concurrentPerform(iterations: 8) { _ in journal.write(ObjectIdentifier(OwnerLifetime.of(object))) }
      #expect(Set(journal.entries).count == 1)
    }
  }

  @Test func theEndOfAnObjectEndsItsChildren() {
    var object: Plain? = Plain()
    let child = OwnerLifetime(parent: OwnerLifetime.of(object!))
    object = nil
    #expect(!child.isAlive)
  }

  @Test func byWeakReferenceTheEndIsNoticedWhenAskedFor() {
    let registry = DeinitRegistry(mechanism: .weakReference)
    var object: Plain? = Plain()
    let lifetime = OwnerLifetime.of(object!, in: registry)
    #expect(OwnerLifetime.of(object!, in: registry) === lifetime)
    let ended = DispatchSemaphore(value: 0)
    lifetime.onEnd { _ in ended.signal() }
    #expect(lifetime.isAlive)
    object = nil
    #expect(!lifetime.isAlive)
    #expect(ended.wait(timeout: .now() + 60) == .success, "asking has the hooks run, in the background")
    #expect(lifetime.endReason == .objectDeinitialised)
  }
}
