import Foundation
import Testing

@testable import OwnedOperations

/// Observers of notifications: no handler begins after an end, no post is lost or heard twice, nothing is left behind.
@Suite(.serialized) struct ObserverModelTests {
  private static let saved = Notification.Name("saved")

  private final class Scene: Sendable {
    let run: ModelRun
    let center = NotificationCenter()
    let lifetime = OwnerLifetime()
    let bodies = Bodies()

    init(_ run: ModelRun) { self.run = run }

    @discardableResult
    func observe(
      _ name: Notification.Name? = saved, object: AnyObject? = nil, by lifetime: OwnerLifetime? = nil, _ bodies: Bodies? = nil
    ) -> OwnedObservation {
      center.observe(name, object: object, lifetime: lifetime ?? self.lifetime) { [bodies = bodies ?? self.bodies] _ in bodies.run() }
    }

    func post(object: AnyObject? = nil) { center.post(name: ObserverModelTests.saved, object: object) }

    /// One post may be under way while the observation ends, and no handler begins with the next.
    func expectNoStartAfterTheEnd() {
      run.expect(bodies.startsAfterEnd <= 1, "\(bodies.startsAfterEnd) handlers began after the end")
    }

    func expectNothingIsLeft() {
      LifetimeReaper.waitUntilIdle()
      DeferredCalls.waitUntilIdle()
      DeferredReleases.waitUntilIdle()
      let counts = ObservationTables.existing(center)?.counts ?? (observations: 0, registrations: 0)
      run.expect(counts == (0, 0), "\(counts.observations) observations and \(counts.registrations) registrations are left")
    }
  }

  private static func explore(
    _ name: String, preemptions: Int = 2, _ location: SourceLocation = #_sourceLocation,
    _ scenario: @escaping @Sendable (Scene) -> Void
  ) {
    ModelExplorer("observers: \(name)").expectNothing(preemptions: preemptions, location) { scenario(Scene($0)) }
  }

  // MARK: No start after the end

  private static func posts(_ scene: Scene, object: AnyObject? = nil) -> (name: String, body: @Sendable () -> Void) {
    nonisolated(unsafe) let object = object
    return (
      "poster",
      {
        scene.post(object: object)
        scene.post(object: object)
      }
    )
  }

  @Test func noHandlerBeginsAfterTheEndOfItsOwner() {
    Self.explore("post, post | end") { scene in
      scene.observe()
      scene.run.concurrently(
        Self.posts(scene),
        (
          "end",
          {
            scene.lifetime.end()
            scene.bodies.hasEnded = true
          }
        ))
      scene.expectNoStartAfterTheEnd()
      scene.expectNothingIsLeft()
    }
  }

  @Test func noHandlerBeginsAfterItsObservationWasInvalidated() {
    Self.explore("post, post | invalidate") { scene in
      let observation = scene.observe()
      scene.run.concurrently(
        Self.posts(scene),
        (
          "invalidate",
          {
            observation.invalidate()
            scene.bodies.hasEnded = true
          }
        ))
      scene.expectNoStartAfterTheEnd()
      scene.expectNothingIsLeft()
    }
  }

  @Test func noHandlerBeginsAfterItWasRemoved() {
    Self.explore("post, post | remove all of the owner") { scene in
      scene.observe()
      scene.run.concurrently(
        Self.posts(scene),
        (
          "remove",
          {
            scene.center.removeObservers(ownedBy: scene.lifetime)
            scene.bodies.hasEnded = true
          }
        ))
      scene.expectNoStartAfterTheEnd()
      scene.expectNothingIsLeft()
    }
  }

  private final class Document: Sendable {}

  /// What is posted then has another object, or none.
  @Test func noHandlerBeginsAfterTheObservedObjectHasGone() {
    Self.explore("post, post | the observed object goes, post") { scene in
      let holder = Holder(Document())
      scene.observe(object: holder.object)
      scene.observe(object: holder.object)
      scene.run.concurrently(
        Self.posts(scene),
        (
          "release",
          {
            holder.object = nil
            scene.bodies.hasEnded = true
            scene.post(object: Document())
          }
        ))
      scene.run.expect(scene.bodies.runs == 0, "\(scene.bodies.runs) heard of what was posted for others")
      scene.expectNothingIsLeft()
    }
  }

  // MARK: Beginning and ending

  @Test func anObservationOfAnOwnerThatEndsMeanwhileIsOver() {
    Self.explore("observe | end") { scene in
      scene.run.concurrently(("observe", { scene.observe() }), ("end", { scene.lifetime.end() }))
      scene.post()
      scene.run.expect(scene.bodies.runs == 0, "it hears of a post after the end")
      scene.expectNothingIsLeft()
    }
  }

  @Test func anObservationThatEndsTwiceGoesOnce() {
    Self.explore("invalidate | end") { scene in
      let observation = scene.observe()
      scene.run.concurrently(("invalidate", { observation.invalidate() }), ("end", { scene.lifetime.end() }))
      scene.run.expect(!observation.isValid, "it is still valid")
      scene.expectNothingIsLeft()
    }
  }

  // MARK: Each post is heard once

  @Test func twoThatObserveAtOnceBothHear() {
    Self.explore("observe, post | observe") { scene in
      let other = OwnerLifetime()
      scene.run.concurrently(
        (
          "one",
          {
            scene.observe()
            scene.post()
          }
        ), ("two", { scene.observe(by: other, Bodies()) }))
      scene.run.expect(scene.bodies.runs == 1, "it heard of \(scene.bodies.runs) of one post")
      scene.post()
      scene.run.expect(scene.bodies.runs == 2, "it heard of \(scene.bodies.runs) of two posts")
      other.end()
      scene.lifetime.end()
      scene.expectNothingIsLeft()
    }
  }

  @Test func whoObservesAllNamesTakesNoPostFromAnother() {
    Self.explore("post, post | observe all names, invalidate") { scene in
      scene.observe()
      scene.run.concurrently(Self.posts(scene), ("all names", { scene.observe(nil, Bodies()).invalidate() }))
      scene.run.expect(scene.bodies.runs == 2, "it heard of \(scene.bodies.runs) of two posts")
      scene.lifetime.end()
      scene.expectNothingIsLeft()
    }
  }

  @Test func aNameIsObservedWhileNobodyObservesAllNamesAnyMore() {
    Self.explore("observe, post, post | invalidate what observes all names") { scene in
      let all = scene.observe(nil, Bodies())
      scene.run.concurrently(
        (
          "observe",
          {
            scene.observe()
            scene.post()
            scene.post()
          }
        ), ("invalidate", { all.invalidate() }))
      scene.run.expect(scene.bodies.runs == 2, "it heard of \(scene.bodies.runs) of two posts")
      scene.lifetime.end()
      scene.expectNothingIsLeft()
    }
  }
}
