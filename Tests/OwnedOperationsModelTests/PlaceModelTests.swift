import Foundation
import Testing

@testable import OwnedOperations

/// Where the first queue of an owner finds what it knows of that; see `ClaimedPlace`.
@Suite(.serialized) struct PlaceModelTests {
  /// A queue, as far as a place knows it: a lock, and what it guards.
  private final class Claimant: @unchecked Sendable {  // the lock guards its use of the place
    let lock = Lock()
    let object = ModelFlag()

    func claim(_ place: borrowing ClaimedPlace) { lock.withLock { _ = place.claim(for: self, object) } }
    func giveUp(_ place: borrowing ClaimedPlace) { lock.withLock { place.giveUp(by: self, object) } }

    /// Nil, or its own.
    func findsNothingElse(_ place: borrowing ClaimedPlace) -> Bool {
      lock.withLock { place.value(of: self, ModelFlag.self).map { $0.address == Borrowed(object).address } ?? true }
    }
  }

  private final class Owner: Sendable {
    let place = ClaimedPlace()
  }

  @Test(arguments: [["claim", "claim"], ["claim, give up", "claim, look"], ["claim, give up, claim", "claim, give up, claim"]])
  func twoQueues(_ threads: [String]) { Self.explore(threads, preemptions: 3) }

  @Test func threeQueues() { Self.explore(["claim, give up", "claim, give up", "claim, look"], preemptions: 2) }

  private static func explore(_ threads: [String], preemptions: Int) {
    ModelExplorer("place: \(threads.joined(separator: " | "))").expectNothing(preemptions: preemptions) { run in
      let owner = Owner()
      let claimants = threads.map { _ in Claimant() }
      run.concurrently(
        zip(threads, claimants).map { steps, claimant in
          (
            steps,
            { @Sendable in
              for step in steps.components(separatedBy: ", ") {
                switch step {
                case "claim": claimant.claim(owner.place)
                case "give up": claimant.giveUp(owner.place)
                default: break
                }
                run.expect(claimant.findsNothingElse(owner.place), "one finds what is another's")
              }
            }
          )
        })
      // Whoever has it gives it up, and it is everybody's again.
      for claimant in claimants { claimant.giveUp(owner.place) }
      for claimant in claimants {
        claimant.claim(owner.place)
        run.expect(owner.place.value(of: claimant, ModelFlag.self)?.address == Borrowed(claimant.object).address, "the place is lost")
        claimant.giveUp(owner.place)
      }
    }
  }
}
