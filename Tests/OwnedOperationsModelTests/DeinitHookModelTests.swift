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
