import Foundation
import Testing

@testable import OwnedOperations

@Suite struct OwnerHierarchyTests {
  @Test func childrenEndBeforeTheHooksOfTheirParent() {
    let root = OwnerLifetime()
    let child = OwnerLifetime(parent: root)
    let grandchild = OwnerLifetime(parent: child)
    let journal = Journal<String>()
    root.onEnd { _ in journal.write("root") }
    child.onEnd { _ in journal.write("child") }
    grandchild.onEnd { _ in
      #expect(!root.isAlive && !child.isAlive, "all are ended before the first hook runs")
      journal.write("grandchild")
    }
    root.end()
    #expect(journal.entries == ["grandchild", "child", "root"])
    #expect(child.endReason == .parentEnded(root.id))
    #expect(grandchild.endReason == .parentEnded(child.id))
  }

  @Test func parentsOutliveTheirChildren() {
    let root = OwnerLifetime()
    let child = OwnerLifetime(parent: root)
    let sibling = OwnerLifetime(parent: root)
    child.end()
    #expect(root.isAlive)
    #expect(sibling.isAlive)
    #expect(child.parent == nil)
    #expect(sibling.parent === root)
  }

  @Test func childrenOfTokensEndWithTheOwner() {
    var owner: TokenOwner? = TokenOwner(name: "host")
    let child = TokenOwner(parent: owner!.lifetime)
    owner = nil
    #expect(!child.lifetime.isAlive)
  }

  @Test func childOfAnEndedParentIsBornEndedAndSaysSo() {
    let parent = OwnerLifetime(name: "gone")
    parent.end()
    let child = OwnerLifetime(name: "late", parent: parent)
    #expect(!child.isAlive)
    #expect(!OwnerLifetime.isAlive(child.id))
    #expect(child.endReason == .parentEnded(parent.id))
    #expect(child.description == "\(child.id) \"late\" (ended: its parent \(parent.id) ended)")
    let runs = Counter()
    child.onEnd { _ in runs.add() }
    #expect(runs.value == 1)
  }

  @Test func thousandDeepTreesEndFromTheBottomUp() {
    let depth = 1_000
    let root = OwnerLifetime()
    let journal = Journal<Int>()
    var lifetimes = [root]
    for level in 1...depth {
      let lifetime = OwnerLifetime(parent: lifetimes[level - 1])
      lifetime.onEnd { _ in journal.write(level) }
      lifetimes.append(lifetime)
    }
    root.end()
    #expect(journal.entries == Array((1...depth).reversed()))
  }

  @Test func wideTreesEndWhole() {
    let width = 100_000
    let root = OwnerLifetime()
    let count = Counter()
    let children = (0..<width).map { _ in
      let child = OwnerLifetime(parent: root)
      child.onEnd { _ in count.add() }
      return child
    }
    root.onEnd { _ in #expect(count.value == width) }
    root.end()
    #expect(count.value == width)
    #expect(children.allSatisfy { !$0.isAlive })
  }

  @Test func millionDeepLineGoesWithItsLeafWithoutDeepRecursion() {
    let count = Sanitizer.many(1_000_000)
    var leaf: OwnerLifetime? = OwnerLifetime()
    let first = leaf!.id
    for _ in 0..<count { leaf = OwnerLifetime(parent: leaf) }
    #expect(OwnerLifetime.isAlive(first))
    leaf = nil
    #expect(!OwnerLifetime.isAlive(first))
  }

  @Test func millionDeepLineEndsFromItsRootWithoutDeepRecursion() {
    let root = OwnerLifetime()
    var leaf = root
    for _ in 0..<Sanitizer.many(1_000_000) { leaf = OwnerLifetime(parent: leaf) }
    root.end()
    #expect(!leaf.isAlive)
  }

  @Test func childrenThatGoAreForgotten() {
    let root = OwnerLifetime()
    weak let seen: OwnerLifetime? = {
      let child = OwnerLifetime(parent: root)
      return child
    }()
    #expect(seen == nil, "a parent does not keep its children")
    #expect(root.childCount == 0)
  }

  @Test func parentCanBeChanged() throws {
    let old = OwnerLifetime()
    let new = OwnerLifetime()
    let child = OwnerLifetime(parent: old)
    try child.setParent(new)
    #expect(child.parent === new)
    old.end()
    #expect(child.isAlive)
    new.end()
    #expect(!child.isAlive)
  }

  @Test func parentCanBeTakenAway() throws {
    let parent = OwnerLifetime()
    let child = OwnerLifetime(parent: parent)
    try child.setParent(nil)
    parent.end()
    #expect(child.isAlive)
  }

  @Test func newParentThatHasEndedEndsTheChild() throws {
    let parent = OwnerLifetime()
    parent.end()
    let child = OwnerLifetime()
    try child.setParent(parent)
    #expect(child.endReason == .parentEnded(parent.id))
  }

  @Test func cycleOfParentsIsRefusedAndNamed() {
    let top = OwnerLifetime(name: "top")
    let middle = OwnerLifetime(name: "middle", parent: top)
    let bottom = OwnerLifetime(name: "bottom", parent: middle)
    let expected = OwnerLifetimeError.parentCycle([top, bottom, middle, top].map(\.description))
    #expect(throws: expected) { try top.setParent(bottom) }
    #expect(throws: OwnerLifetimeError.parentCycle([top.description, top.description])) { try top.setParent(top) }
    #expect(top.parent == nil)
    #expect("\(expected)".contains("\"top\" -> owner#\(bottom.id.rawValue) \"bottom\""))
    bottom.end()
    #expect(top.isAlive)
  }

  @Test func endedLifetimeRefusesAParent() {
    let child = OwnerLifetime()
    child.end()
    #expect(throws: OwnerLifetimeError.alreadyEnded(child.description)) { try child.setParent(OwnerLifetime()) }
  }

  @Test func changingParentsWhileEverythingEndsLosesNobody() {
    for _ in 0..<300 {
      let parents = (0..<4).map { _ in OwnerLifetime() }
      let children = (0..<16).map { OwnerLifetime(parent: parents[$0 % 4]) }
      let hooks = Counter()
      for child in children { child.onEnd { _ in hooks.add() } }
      DispatchQueue.concurrentPerform(iterations: 4) { side in
        if side == 0 {
          for parent in parents { parent.end() }
        } else {
          for (index, child) in children.enumerated() { try? child.setParent(parents[(index + side) % 4]) }
        }
      }
      #expect(children.allSatisfy { !$0.isAlive })
      #expect(hooks.value == children.count)
      #expect(parents.allSatisfy { $0.childCount == 0 })
    }
  }

  @Test func childrenMadeWhileTheParentEndsAllEnd() {
    for _ in 0..<300 {
      let parent = OwnerLifetime()
      let made = Journal<OwnerLifetime>()
      DispatchQueue.concurrentPerform(iterations: 4) { side in
        if side == 0 { parent.end() } else { for _ in 0..<20 { made.write(OwnerLifetime(parent: parent)) } }
      }
      #expect(made.entries.allSatisfy { !$0.isAlive })
    }
  }
}
