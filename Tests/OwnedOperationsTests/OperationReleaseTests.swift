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

  /// Nobody keeps it for its name.
  @Test(arguments: [false, true]) func aFailedDependencyThatIsNoneAnyMoreGoes(isAskedFor: Bool) {
    // Of a kind that is not told of its cancellation, so that the library itself does not ask for the reason.
    let dependent = OwnedBlockOperation(lifetime: .forTests) {}
    dependent.dependencyPolicy = .requireSuccess
    let seen = Weakly<OwnedOperation>()
    do {
      let dependency = OwnedOperation(lifetime: .forTests)
      dependency.name = "first"
      seen.object = dependency
      dependent.addDependency(dependency)
      dependency.cancel()
      if isAskedFor { #expect(dependent.cancellationReason == .dependencyFailed("first")) }
      dependent.removeDependency(dependency)
    }
    #expect(eventually { seen.object == nil })
    #expect(dependent.cancellationReason == .dependencyFailed("first"))
  }

  private final class Leaving: OwnedOperation, @unchecked Sendable {  // set before it goes
    var whenGone: (() -> Void)?
    deinit { whenGone?() }
  }

  /// A line of dependencies goes one after the other, but not later than a deinit in it may wait for.
  @Test(arguments: [1, 2]) func aDeinitMayWaitForWhatItLetsGoOf(dependents: Int) {
    let gone = DispatchSemaphore(value: 0)
    var others = (0..<dependents).map { _ in Leaving(lifetime: .forTests) }
    do {
      let last = Leaving(lifetime: .forTests)
      last.whenGone = { gone.signal() }
      for other in others { other.addDependency(last) }
    }
    var outermost: OwnedOperation? = OwnedOperation(lifetime: .forTests)
    do {
      let operation = Leaving(lifetime: .forTests)
      operation.whenGone = {
        others = []
        #expect(gone.wait(timeout: .now()) == .success)
      }
      outermost?.addDependency(operation)
    }
    outermost = nil
    #expect(others.isEmpty)
  }

  @Test func bodiesGoWithTheFinish() async throws {
    for kind in Self.kinds {
      weak var captured: TokenOwner?
      let operation = make(kind, .forTests, &captured)
      #expect(captured != nil)
      operation.start()
      await operation.finished()
      #expect(captured == nil, "\(kind.name)")
    }
  }

  @Test func bodiesGoWithTheCancellation() {
    for kind in Self.kinds {
      weak var captured: TokenOwner?
      let operation = make(kind, .forTests, &captured)
      operation.cancel()
      DeferredReleases.waitUntilIdle()
      #expect(captured == nil, "\(kind.name)")
      #expect(!operation.isFinished)
    }
  }

  @Test func bodiesGoWithTheFinishOfAnEndedOwnersOperation() async throws {
    for kind in Self.kinds {
      for _ in 0..<50 {
        let lifetime = OwnerLifetime()
        weak var captured: TokenOwner?
        let operation = make(kind, lifetime, &captured)
        lifetime.end()
        operation.start()  // races with the reaper
        #expect(operation.isFinished)
        DeferredReleases.waitUntilIdle()
        #expect(captured == nil, "\(kind.name)")
      }
    }
  }

  // MARK: Subclasses with a task

  /// Holds something while it runs, and, if it is to, waits for its cancellation.
  private final class Holding: OwnedAsyncOperation, @unchecked Sendable {
    let waits: Bool
    let isHeld = DispatchSemaphore(value: 0)
    private(set) weak var held: TokenOwner?  // written before anybody else has the operation
    private let supply: Mutexed<TokenOwner?>

    init(lifetime: OwnerLifetime, waits: Bool) {
      self.waits = waits
      let owner = TokenOwner()
      held = owner
      supply = Mutexed(owner)
      super.init(lifetime: lifetime)
    }

    override func run() async throws {
      let mine = take()
      isHeld.signal()
      if waits { try await Task.sleep(for: .seconds(3600)) }
      withExtendedLifetime(mine) {}
    }

    private func take() -> TokenOwner? {
      defer { supply.value = nil }
      return supply.value
    }
  }

  @Test func whatAnAsyncSubclassHeldInItsTaskHasGoneWhenItHasFinished() async throws {
    enum Way: CaseIterable { case itself, cancelled, ended, timedOut }
    for way in Way.allCases {
      let lifetime = OwnerLifetime()
      let operation = Holding(lifetime: lifetime, waits: way != .itself)
      if way == .timedOut { operation.timeout = .milliseconds(100) }
      #expect(operation.held != nil)
      // A task that has not begun by the end never begins.
      OperationTimers.queue.suspend()
      operation.start()
      #expect(operation.isHeld.waitUntilSignalled())
      OperationTimers.queue.resume()
      switch way {
      case .cancelled: operation.cancel()
      case .ended: lifetime.end()
      case .itself, .timedOut: break
      }
      await operation.finished()
      #expect(operation.held == nil, "\(way)")
    }
  }

  @Test func anAsyncSubclassGoesWithItsLastReference() async throws {
    enum Way: CaseIterable { case neverStarted, cancelledBeforeTheStart, run, cancelled, ended }
    for way in Way.allCases {
      weak var released: Holding?
      do {
        let lifetime = OwnerLifetime()
        let operation = Holding(lifetime: lifetime, waits: way == .cancelled || way == .ended)
        released = operation
        if way == .cancelledBeforeTheStart { operation.cancel() }
        if way != .neverStarted { operation.start() }
        if way == .cancelled { operation.cancel() }
        if way == .ended { lifetime.end() }
        if way != .neverStarted { await operation.finished() }
      }
      // The task that ran the body, and the one who told of the end, go on for a moment.
      while way != .neverStarted, released != nil { await Task.yield() }
      #expect(released == nil, "\(way)")
    }
  }

  @Test func completionBlocksAndObserversGoWithTheFinishOfEveryKind() async throws {
    let subclass = Kind(name: "async subclass") { lifetime, _ in Holding(lifetime: lifetime, waits: false) }
    for kind in Self.kinds + [subclass] {
      for isCancelled in [false, true] {
        weak var inBlock: TokenOwner?
        weak var inHandler: TokenOwner?
        let operation = kind.make(.forTests, TokenOwner())
        let gone = DispatchSemaphore(value: 0)
        operation.completionBlock = { [capture = keep(&inBlock)] in capture.lifetime.onEnd { _ in gone.signal() } }
        let observation = operation.observe(\.isFinished) { [capture = keep(&inHandler)] _, _ in _ = capture }
        #expect(inBlock != nil && inHandler != nil)
        if isCancelled { operation.cancel() }
        operation.start()
        await operation.finished()
        await withCheckedContinuation { continuation in
          Thread.detachNewThread {
            gone.wait()
            continuation.resume()
          }
        }
        #expect(inBlock == nil, "\(kind.name)")
        while inHandler != nil { await Task.yield() }  // handlers are told after waiters
        withExtendedLifetime(observation) {}
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
            await operation.finished()
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
