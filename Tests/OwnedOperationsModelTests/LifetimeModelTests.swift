import Foundation
import Testing

@testable import OwnedOperations

/// The tree of lifetimes, their hooks, and those who belong to them.
@Suite(.serialized) struct LifetimeModelTests {
  private static func explore(
    _ name: String, preemptions: Int = 2, reduces: Bool = false, deeper: Int? = ModelExplorer.someDeeper,
    _ location: SourceLocation = #_sourceLocation, _ scenario: @escaping @Sendable (ModelRun) -> Void
  ) {
    var explorer = ModelExplorer("lifetimes: \(name)")
    explorer.exploresBackground = name.hasPrefix("member")
    explorer.expectNothing(preemptions: preemptions, reduces: reduces, deeper: deeper, location, scenario)
  }

  @Test func endsOnce() {
    Self.explore("end | end") { run in
      let lifetime = OwnerLifetime()
      let calls = ModelFlag()
      lifetime.onEnd { _ in calls.count += 1 }
      let end: @Sendable () -> Void = {
        lifetime.end()
        run.expect(!OwnerLifetime.isAlive(lifetime.id), "its identifier is alive when an end has returned")
      }
      run.concurrently(("one", end), ("two", end))
      run.expect(calls.count == 1, "the hook ran \(calls.count) times")
      run.expect(!lifetime.isAlive, "it is alive")
    }
  }

  /// Each of two ends, of whatever above the leaf, returns when the leaf has ended, whoever of them closes it.
  private static func exploreTwoEnds(
    _ name: String, _ one: @escaping @Sendable (Family) -> OwnerLifetime, _ two: @escaping @Sendable (Family) -> OwnerLifetime
  ) {
    explore(name) { run in
      let family = Family()
      let calls = ModelFlag()
      for lifetime in [family.root, family.middle, family.leaf] { lifetime.onEnd { _ in calls.count += 1 } }
      let (first, second) = (one(family), two(family))
      let end: @Sendable (OwnerLifetime) -> Void = { lifetime in
        lifetime.end()
        run.expect(!family.leaf.isAlive, "what is below is alive when an end has returned")
      }
      run.concurrently(("one", { end(first) }), ("two", { end(second) }))
      let ended = [family.root, family.middle, family.leaf].filter { !$0.isAlive }
      run.expect(calls.count == ended.count, "the hooks of \(ended.count) ran \(calls.count) times")
      run.expect(ended.allSatisfy { $0.childCount == 0 }, "who has ended keeps children")
      let reason = family.leaf.endReason
      run.expect(reason == .parentEnded(family.middle.id), "the leaf ended because \(String(describing: reason))")
    }
  }

  struct Family: Sendable {
    let root = OwnerLifetime()
    let middle: OwnerLifetime
    let leaf: OwnerLifetime

    init() {
      middle = OwnerLifetime(parent: root)
      leaf = OwnerLifetime(parent: middle)
    }
  }

  @Test func aHookThatComesAfterTheEndFindsTheIdentifierEnded() {
    Self.explore("identifier: end | onEnd") { run in
      let lifetime = OwnerLifetime()
      let calls = ModelFlag()
      let come: @Sendable () -> Void = {
        lifetime.onEnd { id in
          calls.count += 1
          run.expect(!OwnerLifetime.isAlive(id), "the hook of one that has ended finds its identifier alive")
        }
      }
      run.concurrently(("end", { lifetime.end() }), ("come", come))
      run.expect(calls.count == 1, "the hook ran \(calls.count) times")
    }
  }

  @Test func aSecondEndReturnsWhenEverythingBelowHasEnded() {
    Self.exploreTwoEnds("end | end, with a child", \.middle, \.middle)
  }

  @Test func anEndAboveOneThatIsUnderWayReturnsWhenEverythingBelowHasEnded() {
    Self.exploreTwoEnds("end | end of the parent, with a child", \.middle, \.root)
  }

  @Test func anEndOfOneThatMovesReturnsWhenEverythingBelowHasEnded() {
    Self.explore("setParent, end | end of the parent, with a child") { run in
      let family = Family()
      run.concurrently(
        (
          "move",
          {
            try? family.middle.setParent(nil)
            family.middle.end()
            run.expect(!family.leaf.isAlive, "what is below is alive when an end has returned")
          }
        ),
        ("end", { family.root.end() }))
      run.expect(!family.leaf.isAlive && !family.middle.isAlive && !family.root.isAlive, "one of them is alive")
      run.expect([family.root, family.middle].allSatisfy { $0.childCount == 0 }, "who has ended keeps children")
    }
  }

  @Test func aHookThatComesWhileItEndsRunsOnce() {
    Self.explore("onEnd | end") { run in
      let lifetime = OwnerLifetime()
      let calls = ModelFlag()
      run.concurrently(("onEnd", { lifetime.onEnd { _ in calls.count += 1 } }), ("end", { lifetime.end() }))
      run.expect(calls.count == 1, "the hook ran \(calls.count) times")
    }
  }

  @Test func aHookComesWhileItMovesAndEnds() {
    Self.explore("onEnd | setParent | end", preemptions: 1) { run in
      let (parent, lifetime) = (OwnerLifetime(), OwnerLifetime())
      let calls = ModelFlag()
      run.concurrently(
        ("onEnd", { lifetime.onEnd { _ in calls.count += 1 } }), ("move", { try? lifetime.setParent(parent) }),
        ("end", { lifetime.end() }))
      run.expect(calls.count == 1, "the hook ran \(calls.count) times")
      run.expect(parent.childCount == 0, "who has ended is a child still")
    }
  }

  @Test func aHookIsCancelledOrRuns() {
    Self.explore("cancel | end") { run in
      let lifetime = OwnerLifetime()
      let calls = ModelFlag()
      let hook = lifetime.onEnd { _ in calls.count += 1 }
      run.concurrently(("cancel", { hook.cancel() }), ("end", { lifetime.end() }))
      run.expect(calls.count <= 1, "the hook ran \(calls.count) times")
    }
  }

  @Test func aChildThatJoinsAParentThatEndsEndsToo() {
    Self.explore("setParent | end") { run in
      let (parent, child) = (OwnerLifetime(), OwnerLifetime())
      run.concurrently(("setParent", { try? child.setParent(parent) }), ("end", { parent.end() }))
      run.expect(!child.isAlive, "the child of a parent that has ended is alive")
    }
  }

  @Test func aChildThatLeavesWhileItsParentEndsIsDecided() {
    Self.explore("leave | end") { run in
      let parent = OwnerLifetime()
      let child = OwnerLifetime(parent: parent)
      run.concurrently(("leave", { try? child.setParent(nil) }), ("end", { parent.end() }))
      run.expect(child.isAlive || child.endReason == .parentEnded(parent.id), "it has ended for another reason")
      run.expect(child.parent == nil, "it still has a parent that has ended")
    }
  }

  /// Nobody may reach it through the new parent when it has gone.
  @Test func aChildThatEndsOnItsWayToAnotherParentIsNotLeftThere() {
    Self.explore("setParent | end, go") { run in
      let (former, new) = (OwnerLifetime(), OwnerLifetime())
      let child = Holder(OwnerLifetime(parent: former))
      run.concurrently(("setParent", { try? child.object?.setParent(new) }), ("end", { child.object?.end() }))
      let isAlive = child.object?.isAlive ?? false
      child.object = nil
      let left = new.lock.withLock { new.guarded.relations?.children.count ?? 0 }
      run.expect(left == 0, "\(left) children are left with the new parent, though none is there (it was \(isAlive ? "alive" : "ended"))")
    }
  }

  @Test func theReasonOfAnEndIsNeverTakenBack() {
    Self.explore("end | end of the parent | endReason") { run in
      let parent = OwnerLifetime()
      let child = OwnerLifetime(parent: parent)
      final class Reasons: @unchecked Sendable {  // the baton holder's
        var first: OwnerEndReason?
      }
      let reasons = Reasons()
      run.concurrently(
        ("end", { child.end() }), ("parent", { parent.end() }), ("reader", { reasons.first = child.endReason }))
      let last = child.endReason
      run.expect(last == .requested || last == .parentEnded(parent.id), "it ended because \(String(describing: last))")
      run.expect(
        reasons.first == nil || reasons.first == last, "it ended because \(String(describing: reasons.first)), and then another reason")
    }
  }

  @Test func theReasonOfAnEndIsThatOfTheFirst() {
    Self.explore("end | token | endReason") { run in
      let token = Holder(OwnerLifetime.Token())
      let lifetime = token.object!.lifetime
      final class Reasons: @unchecked Sendable {  // the baton holder's
        var first: OwnerEndReason?
      }
      let reasons = Reasons()
      run.concurrently(
        ("end", { lifetime.end() }), ("token", { token.object = nil }), ("reader", { reasons.first = lifetime.endReason }))
      let last = lifetime.endReason
      run.expect(
        reasons.first == nil || reasons.first == last, "it ended because \(String(describing: reasons.first)), and then another reason")
    }
  }

  @Test func cyclesAreRefusedWhoeverComesFirst() {
    Self.explore("a under b | b under a") { run in
      let (a, b) = (OwnerLifetime(), OwnerLifetime())
      let refusals = ModelFlag()
      run.concurrently(
        ("a", { do { try a.setParent(b) } catch { refusals.count += 1 } }),
        ("b", { do { try b.setParent(a) } catch { refusals.count += 1 } }))
      run.expect(refusals.count == 1, "\(refusals.count) of two were refused")
      a.end()
      b.end()
    }
  }

  @Test func aTokenThatGoesWhileItsParentEndsEndsOnce() {
    Self.explore("token | parent") { run in
      let parent = OwnerLifetime()
      let token = Holder(OwnerLifetime.Token(parent: parent))
      let lifetime = token.object!.lifetime
      let calls = ModelFlag()
      lifetime.onEnd { _ in calls.count += 1 }
      run.concurrently(("token", { token.object = nil }), ("parent", { parent.end() }))
      run.expect(!lifetime.isAlive, "it is alive")
      run.expect(calls.count == 1, "the hook ran \(calls.count) times")
    }
  }

  private final class Owner: OperationOwner, Sendable {
    let lifetimeToken: OwnerLifetime.Token
    init(_ parent: OwnerLifetime) { lifetimeToken = OwnerLifetime.Token(parent: parent) }
  }

  @Test func theLastReferenceToAnOwnerGoesWhileItsParentEnds() {
    Self.exploreLastReference("last reference to an owner | end of the parent") { parent, calls in
      let owner = Owner(parent)
      owner.lifetime.onEnd { _ in calls.count += 1 }
      return owner
    }
  }

  /// The parent may meet the child in its deinit, which is the child's end.
  @Test func theLastReferenceToAChildGoesWhileItsParentEnds() {
    Self.exploreLastReference("last reference to a child | end of the parent") { parent, calls in
      let child = OwnerLifetime(parent: parent)
      child.onEnd { _ in calls.count += 1 }
      return child
    }
  }

  /// Nobody else holds the child, or its lifetime.
  private static func exploreLastReference(
    _ name: String, _ location: SourceLocation = #_sourceLocation, _ make: @escaping @Sendable (OwnerLifetime, ModelFlag) -> AnyObject
  ) {
    explore(name, preemptions: 3, location) { run in
      let parent = OwnerLifetime()
      let calls = ModelFlag()
      let child = Holder(make(parent, calls))
      let isThere = WeakReference(child.object!)
      run.concurrently(("release", { child.object = nil }), ("parent", { parent.end() }))
      run.expect(calls.count == 1, "the hook ran \(calls.count) times")
      run.expect(isThere.object == nil, "the child is still there")
      run.expect(parent.childCount == 0, "who has ended keeps children")
    }
  }

  /// A hook that comes while the child's end is the parent's affair runs once, when the child has ended.
  @Test func aHookComesWhileTheParentEnds() {
    Self.explore("onEnd | end of the parent", preemptions: 3) { run in
      let parent = OwnerLifetime()
      let child = OwnerLifetime(parent: parent)
      let (calls, early) = (ModelFlag(), ModelFlag())
      run.concurrently(
        (
          "onEnd",
          {
            child.onEnd { _ in
              calls.count += 1
              if child.isAlive { early.isSet = true }
            }
          }
        ), ("parent", { parent.end() }))
      run.expect(calls.count == 1, "the hook ran \(calls.count) times")
      run.expect(!early.isSet, "the hook ran before the end")
    }
  }

  final class Member: LifetimeMember, @unchecked Sendable {  // the baton holder's
    static let memberKind: MemberKind = MemberKind(of: Member.self)
    var memberIndex = MemberList.notListed
    let heard: ModelFlag
    init(_ heard: ModelFlag) { self.heard = heard }
    func lifetimeDidEnd() { heard.count += 1 }
  }

  /// A member that has joined hears of the end once, if it has not left; one that is refused never does.
  @Test func aMemberThatJoinsWhileItEndsHearsOfItOrIsRefused() {
    Self.explore("member: join | end", preemptions: 1) { run in
      let lifetime = OwnerLifetime()
      let (heard, joined) = (ModelFlag(), ModelFlag())
      let member = Member(heard)
      run.concurrently(("join", { joined.isSet = lifetime.join(member) }), ("end", { lifetime.end() }))
      LifetimeReaper.waitUntilIdle()
      run.expect(heard.count == (joined.isSet ? 1 : 0), "joined: \(joined.isSet), heard: \(heard.count)")
    }
  }

  @Test func aMemberThatLeavesWhileItEndsHearsOfItAtMostOnce() {
    Self.explore("member: leave | end", preemptions: 1, reduces: true, deeper: nil) { run in
      let lifetime = OwnerLifetime()
      let heard = ModelFlag()
      let member = Member(heard)
      _ = lifetime.join(member)
      run.concurrently(("leave", { lifetime.leave(member) }), ("end", { lifetime.end() }))
      LifetimeReaper.waitUntilIdle()
      run.expect(heard.count <= 1, "heard \(heard.count) times")
    }
  }

  @Test func anotherMemberThatLeavesMeanwhileTakesNobodyAlong() {
    Self.explore("member: leave | end, of two", preemptions: 1, reduces: true, deeper: nil) { run in
      let lifetime = OwnerLifetime()
      let (heard, other) = (ModelFlag(), ModelFlag())
      let (first, second) = (Member(heard), Member(other))
      _ = lifetime.join(first)
      _ = lifetime.join(second)
      run.concurrently(("leave", { lifetime.leave(first) }), ("end", { lifetime.end() }))
      LifetimeReaper.waitUntilIdle()
      run.expect(heard.count <= 1, "heard \(heard.count) times")
      run.expect(other.count == 1, "the other heard \(other.count) times")
      withExtendedLifetime((first, second)) {}
    }
  }

  @Test func aMemberThatGoesWhileItEndsIsNotTouched() {
    Self.explore("member: go | end", preemptions: 1, reduces: true, deeper: nil) { run in
      let lifetime = OwnerLifetime()
      let heard = ModelFlag()
      let holder = Holder(LeavingMember(lifetime, heard))
      run.concurrently(("go", { holder.object = nil }), ("end", { lifetime.end() }))
      LifetimeReaper.waitUntilIdle()
      run.expect(heard.count <= 1, "heard \(heard.count) times")
    }
  }

  /// The reaper passes by a member that is in its deinit. Then that one leaves, from a place that the reaper will not look at again.
  @Test func aMemberThatGoesWhileItEndsTakesNobodyAlong() {
    Self.explore("go | reap") { run in
      let lifetime = OwnerLifetime()
      let (heard, other) = (ModelFlag(), ModelFlag())
      let holder = Holder(LeavingMember(lifetime, heard))
      let others = [Member(other), Member(other)]
      for member in others { _ = lifetime.join(member) }
      LifetimeReaper.hold(lifetime)
      lifetime.end()
      run.concurrently(("go", { holder.object = nil }), ("reap", { lifetime.tellMembers() }))
      LifetimeReaper.resume(lifetime)
      LifetimeReaper.waitUntilIdle()
      run.expect(heard.count <= 1, "heard \(heard.count) times")
      run.expect(other.count == 2, "the others heard \(other.count) times")
      withExtendedLifetime(others) {}
    }
  }

  final class LeavingMember: LifetimeMember, @unchecked Sendable {  // the baton holder's
    static let memberKind: MemberKind = MemberKind(of: LeavingMember.self)
    var memberIndex = MemberList.notListed
    let lifetime: OwnerLifetime
    let heard: ModelFlag

    init(_ lifetime: OwnerLifetime, _ heard: ModelFlag) {
      (self.lifetime, self.heard) = (lifetime, heard)
      _ = lifetime.join(self)
    }

    deinit { lifetime.leave(self) }
    func lifetimeDidEnd() { heard.count += 1 }
  }
}
