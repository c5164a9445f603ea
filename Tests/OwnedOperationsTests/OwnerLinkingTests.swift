import Foundation
import Testing

@testable import OwnedOperations

/// `setParent` against the ends of those it concerns: nobody is reached after its release, and no hook runs under a lock.
@Suite struct OwnerLinkingTests {
  @Test func childThatMovedAwayWhileItsFormerParentEndsBelongsToTheNewOne() throws {
    let (old, new) = (OwnerLifetime(), OwnerLifetime())
    var child: OwnerLifetime? = OwnerLifetime(parent: old)
    // The former parent has begun to end, and knows the child; the child moves; then the end comes to it.
    let closed = try #require(old.close(.requested).closed)
    try child?.setParent(new)
    #expect(old.closeTree(from: closed, .requested).count == 1, "only itself")
    #expect(child?.isAlive == true && child?.parent === new)
    _ = consume closed
    #expect(new.childCount == 1)
    child = nil
    #expect(new.childCount == 0, "the new parent would reach for what has gone")
    new.end()
  }

  @Test func childThatEndedBeforeItMovedIsNobodysChild() throws {
    let (old, new) = (OwnerLifetime(), OwnerLifetime())
    let child = OwnerLifetime(parent: old)
    let closed = try #require(old.close(.requested).closed)
    #expect(old.closeTree(from: closed, .requested).count == 2)
    #expect(throws: OwnerLifetimeError.alreadyEnded(child.description)) { try child.setParent(new) }
    #expect(new.childCount == 0 && child.endReason == .parentEnded(old.id))
  }

  @Test func childThatMovedAndMovedBackEndsWithItsParent() throws {
    let (old, new) = (OwnerLifetime(), OwnerLifetime())
    let child = OwnerLifetime(parent: old)
    let closed = try #require(old.close(.requested).closed)
    try child.setParent(new)
    try child.setParent(old)
    #expect(child.endReason == .parentEnded(old.id))
    #expect(old.closeTree(from: closed, .requested).count == 1)
    #expect(new.childCount == 0)
  }

  @Test func hooksOfAFormerParentRunOutsideTheLock() {
    let ran = Counter()
    let isDone = returns {
      let (child, other) = (OwnerLifetime(), OwnerLifetime())
      do {
        let parent = OwnerLifetime()
        parent.onEnd { _ in
          try? other.setParent(nil)
          ran.add()
        }
        try? child.setParent(parent)
      }
      try? child.setParent(nil)  // the child held the last reference to it
    }
    #expect(isDone)
    #expect(ran.value == 1)
  }

  /// Whoever looks for cycles may be the last to hold an ancestor.
  @Test func ancestorsThatWereLookedAtAreLeftToTheCaller() throws {
    let child = OwnerLifetime()
    let parent = OwnerLifetime(parent: OwnerLifetime(name: "ancestor"))
    weak let ancestor = parent.parent
    var held: [OwnerLifetime] = []
    try child.checkAncestors(of: parent, holding: &held)
    parent.end()  // lets go of the ancestor
    #expect(ancestor != nil && held.last === ancestor)
    held.removeAll()
    #expect(ancestor == nil)
  }

  @Test func millionDeepLineGoesWithItsLastChildsMoveWithoutDeepRecursion() throws {
    let child = OwnerLifetime()
    do {
      var leaf = OwnerLifetime()
      for _ in 0..<100_000 { leaf = OwnerLifetime(parent: leaf) }
      let link = OwnerLifetime(parent: leaf)
      try child.setParent(link)
    }
    let former = try #require(child.parent?.id)
    try child.setParent(nil)
    #expect(!OwnerLifetime.isAlive(former) && child.isAlive)
  }
}

extension OwnerLifetime.Closing {
  fileprivate var closed: OwnerLifetime.Closed? {
    if case .turnedWith(let closed) = self { closed } else { nil }
  }
}
