import Foundation
import Testing

@testable import OwnedOperations

/// Hooks that are installed, cancelled and fired at once.
@Suite(.serialized) struct DeinitHookModelTests {
  private static func explore(
    _ name: String, _ location: SourceLocation = #_sourceLocation, _ scenario: @escaping @Sendable (ModelRun) -> Void
  ) {
    ModelExplorer("deinit hooks: \(name)").expectNothing(preemptions: 2, location, scenario)
  }

  final class Object: Sendable {}
  final class Other: Sendable {}

  @Test func twoAreInstalledAtOnce() {
    Self.explore("install | install") { run in
      let holder = Holder(Object())
      let calls = ModelFlag()
      run.concurrently(
        ("one", { onDeinit(of: holder.object!) { _, _ in calls.count += 1 } }),
        ("two", { onDeinit(of: holder.object!) { _, _ in calls.count += 1 } }))
      run.expect(calls.count == 0, "a hook ran before the object went")
      holder.object = nil
      run.expect(calls.count == 2, "\(calls.count) of two hooks ran")
    }
  }

  @Test func cancelledOrFired() {
    Self.explore("cancel | release") { run in
      let holder = Holder(Object())
      let calls = ModelFlag()
      let hook = onDeinit(of: holder.object!) { _, _ in calls.count += 1 }
      let isCancelled = ModelFlag()
      run.concurrently(("cancel", { isCancelled.isSet = hook.cancel() }), ("release", { holder.object = nil }))
      run.expect((isCancelled.isSet ? 1 : 0) + calls.count == 1, "cancelled: \(isCancelled.isSet), calls: \(calls.count)")
    }
  }

  /// Two hold the object: whoever lets go of it last runs the hooks.
  private static func exploreHooked(
    _ name: String, _ one: @escaping @Sendable (Object, DeinitHook, ModelFlag) -> Void,
    _ two: @escaping @Sendable (Object, DeinitHook, ModelFlag) -> Void,
    expect: @escaping @Sendable (ModelRun, _ former: Int, _ later: Int) -> Void
  ) {
    explore(name) { run in
      let (first, former, later) = (Holder(Object()), ModelFlag(), ModelFlag())
      let second = Holder(first.object!)
      let captured = Holder(ModelFlag())
      let isCaptured = WeakReference(captured.object!)
      let hook = onDeinit(of: first.object!, name: "hook") { [flag = captured.object] _, _ in
        flag?.isSet = true
        former.count += 1
      }
      captured.object = nil
      run.concurrently(
        (
          "one",
          {
            one(first.object!, hook, later)
            first.object = nil
          }
        ),
        (
          "two",
          {
            two(second.object!, hook, later)
            second.object = nil
          }
        ))
      expect(run, former.count, later.count)
      run.expect(isCaptured.object == nil, "what the hook captured is still there")
      run.expect(!hook.isInstalled, "it is installed on an object that has gone")
    }
  }

  private static let replace: @Sendable (Object, DeinitHook, ModelFlag) -> Void = { object, _, later in
    onDeinit(of: object, name: "hook") { _, _ in later.count += 1 }
  }

  private static let cancelAll: @Sendable (Object, DeinitHook, ModelFlag) -> Void = { object, _, _ in cancelDeinitHooks(of: object) }

  @Test func aHookIsReplacedWhileOthersLetGo() {
    exploreReplacing("replace | release") { _, _, _ in }
  }

  @Test func aHookIsReplacedTwiceAtOnce() { exploreReplacing("replace | replace", Self.replace) }

  @Test func aHookIsReplacedAndCancelled() {
    exploreReplacing("replace | cancel") { _, hook, _ in hook.cancel() }
  }

  private func exploreReplacing(_ name: String, _ other: @escaping @Sendable (Object, DeinitHook, ModelFlag) -> Void) {
    Self.exploreHooked(name, Self.replace, other) { run, former, later in
      run.expect(former == 0 && later == 1, "the former ran \(former) times, what replaced it \(later) times")
    }
  }

  @Test func allHooksAreCancelledWhileOneIs() {
    Self.exploreHooked(
      "cancel all | cancel", Self.cancelAll, { _, hook, _ in hook.cancel() },
      expect: { run, former, _ in
        run.expect(former == 0, "a cancelled hook ran")
      })
  }

  @Test func allHooksAreCancelledWhileAnotherIsInstalled() {
    Self.exploreHooked("cancel all | install", Self.cancelAll) { object, _, later in
      onDeinit(of: object) { _, _ in later.count += 1 }
    } expect: { run, former, later in
      run.expect(former == 0 && later <= 1, "the former ran \(former) times, the other \(later) times")
    }
  }

  @Test func oneObjectGoesWhileAnotherOfItsClassIsHooked() {
    Self.explore("release | install") { run in
      let (first, second) = (Holder(Object()), Holder(Object()))
      let calls = ModelFlag()
      _ = onDeinit(of: first.object!) { _, _ in calls.count += 1 }
      run.concurrently(
        ("release", { first.object = nil }), ("install", { _ = onDeinit(of: second.object!) { _, _ in calls.count += 1 } }))
      second.object = nil
      run.expect(calls.count == 2, "\(calls.count) of two hooks ran")
    }
  }

  @Test func classesAreHookedForTheFirstTimeAtOnce() {
    Self.explore("install | install of another class") { run in
      let (first, second) = (Holder(Object()), Holder(Other()))
      let calls = ModelFlag()
      run.concurrently(
        (
          "one",
          {
            _ = onDeinit(of: first.object!) { _, _ in calls.count += 1 }
            first.object = nil
          }
        ),
        (
          "two",
          {
            _ = onDeinit(of: second.object!) { _, _ in calls.count += 1 }
            second.object = nil
          }
        ))
      run.expect(calls.count == 2, "\(calls.count) of two hooks ran")
    }
  }

  @Test func theLifetimeOfAnObjectIsMadeOnce() {
    Self.explore("of | of") { run in
      let holder = Holder(Object())
      final class Lifetimes: @unchecked Sendable {  // the baton holder's
        var first: OwnerLifetime?
        var second: OwnerLifetime?
      }
      let lifetimes = Lifetimes()
      let object = holder.object!
      run.concurrently(("one", { lifetimes.first = .of(object) }), ("two", { lifetimes.second = .of(object) }))
      run.expect(lifetimes.first === lifetimes.second, "one object has two lifetimes")
      withExtendedLifetime(object) {}
    }
  }
}
