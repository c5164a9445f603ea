import Foundation
import Testing

@testable import OwnedOperations

/// Captures and operations go when they should, for every kind.
struct OperationReleaseTests {
  private struct Kind {
    let name: String
    let make: @Sendable (OwnerLifetime, TokenOwner) -> OwnedOperation
  }

  private static let kinds = [
    Kind(name: "block") { lifetime, capture in OwnedBlockOperation(lifetime: lifetime) { _ = capture } },
    Kind(name: "result") { lifetime, capture in OwnedResultOperation(lifetime: lifetime) { () -> Int in capture.ownerID.description.count }
    },
    Kind(name: "async result") { lifetime, capture in
      OwnedResultOperation(lifetime: lifetime) { () async throws -> Int in capture.ownerID.description.count }
    },
  ]

  private func make(_ kind: Kind, _ lifetime: OwnerLifetime, _ captured: inout TokenOwner?) -> OwnedOperation {
    kind.make(lifetime, keep(&captured))
  }

  @Test func bodiesGoWithTheFinish() async throws {
    for kind in Self.kinds {
      weak var captured: TokenOwner?
      let operation = make(kind, .forTests, &captured)
      #expect(captured != nil)
      operation.start()
      try await operation.finished()
      #expect(captured == nil, "\(kind.name)")
    }
  }

  @Test func bodiesGoWithTheCancellation() {
    for kind in Self.kinds {
      weak var captured: TokenOwner?
      let operation = make(kind, .forTests, &captured)
      operation.cancel()
      #expect(captured == nil, "\(kind.name)")
      #expect(!operation.isFinished)
    }
  }

  @Test func bodiesHaveGoneWhenTheWaitForAnEndedOwnersOperationReturns() async throws {
    for kind in Self.kinds {
      for _ in 0..<50 {
        let lifetime = OwnerLifetime()
        weak var captured: TokenOwner?
        let operation = make(kind, lifetime, &captured)
        lifetime.end()
        operation.start()  // races with the reaper
        #expect(operation.isFinished)
        #expect(captured == nil, "\(kind.name)")
      }
    }
  }

  @Test func completionBlocksGoAfterTheyHaveRun() {
    weak var captured: TokenOwner?
    let operation = OwnedBlockOperation(lifetime: .forTests) {}
    let gone = DispatchSemaphore(value: 0)
    operation.completionBlock = { [capture = keep(&captured)] in
      capture.lifetime.onEnd { _ in gone.signal() }
    }
    operation.start()
    gone.wait()
    #expect(captured == nil && operation.completionBlock == nil)
  }

  @Test func operationsOfEveryKindGoWithTheirLastReference() async throws {
    for kind in Self.kinds {
      for isRun in [false, true] {
        weak var released: OwnedOperation?
        do {
          let operation = kind.make(.forTests, TokenOwner())
          released = operation
          operation.name = "name"
          operation.addDependency(Operation())
          operation.removeDependency(operation.dependencies[0])
          if isRun {
            operation.start()
            try await operation.finished()
          }
        }
        while isRun, released != nil { await Task.yield() }  // the task that ran the body goes on for a moment
        #expect(released == nil, "\(kind.name)")
      }
    }
  }

  @Test func aLifetimeForgetsOperationsThatHaveFinishedOrGone() {
    let lifetime = OwnerLifetime()
    let kept = OwnedBlockOperation(lifetime: lifetime) {}
    for _ in 0..<1000 {
      OwnedBlockOperation(lifetime: lifetime) {}.start()
      _ = OwnedBlockOperation(lifetime: lifetime) {}
    }
    #expect(kept.memberIndex == 0)
    kept.start()
    #expect(kept.memberIndex == MemberList.notListed)
  }
}
