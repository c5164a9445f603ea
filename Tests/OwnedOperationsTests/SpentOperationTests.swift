import Foundation
import Testing

@testable import OwnedOperations

/// Operations that have been run, and are let go of by who adds others.
@Suite struct SpentOperationTests {
  private final class Screen: OperationOwner, Sendable {
    let lifetimeToken = OwnerLifetime.Token()
  }

  private let queue = OwnerScopedQueue(name: "spent")
  private let screen = Screen()

  init() { queue.maxConcurrentOperationCount = 1 }

  /// Has so many operations run, behind one that is held until the body returns.
  /// - Returns: those that are there.
  private func run(_ count: Int, whileLastIsHeld body: ([WeakOperation]) -> Void, make: () -> OwnedOperation) {
    let (first, last) = (Gate(), Gate())
    queue.addOperation(OwnedBlockOperation(owner: screen) { first.pass() })
    let operations = (0..<count).map { _ in
      let operation = make()
      queue.addOperation(operation)
      return WeakOperation(operation)
    }
    queue.addOperation(OwnedBlockOperation(owner: screen) { last.pass() })
    first.open()
    #expect(last.hasBegun())
    body(operations)
    last.open()
    queue.waitUntilAllOperationsAreFinished()
  }

  private struct WeakOperation: Sendable {
    weak let operation: OwnedOperation?
    init(_ operation: OwnedOperation) { self.operation = operation }
  }

  /// While a body takes its time, those before it wait for who adds, but no longer than a timer has them.
  @Test func aBodyThatTakesLongKeepsNoOthersMemory() {
    run(10) { operations in
      #expect(eventually { operations.allSatisfy { $0.operation == nil } })
    } make: {
      OwnedBlockOperation(owner: screen) {}
    }
  }

  /// What has gone back is let go of on the thread that adds: as many additions as there are slots look at all of them.
  @Test func whoAddsLetsGoOfThoseBefore() {
    run(10) { operations in
      #expect(eventually { queue.snapshot.activeWorkers == 1 })  // whoever stood still for milliseconds has let go, too
      for _ in 0..<32 { queue.addOperation(OwnedBlockOperation(owner: screen) {}) }
      #expect(operations.allSatisfy { $0.operation == nil })
    } make: {
      OwnedBlockOperation(owner: screen) {}
    }
    let hasTray = queue.core.spentOperations.object != nil
    #expect(hasTray)
  }

  /// What would run code of the user's goes where it was run: an end of the lifetime, a dependency that is an object of the user's.
  @Test func whatRunsCodeOfTheUsersDoesNotComeBack() {
    final class Other: Operation, @unchecked Sendable {}
    let dependency = Other()
    dependency.start()
    let withDependency = OwnedBlockOperation(owner: screen) {}
    withDependency.addDependency(dependency)
    withDependency.start()
    #expect(!withDependency.isSpent)
    #expect(!withDependency.keepsNothing)

    let dropped = OwnedBlockOperation(lifetime: OwnerLifetime()) {}
    dropped.start()
    #expect(!dropped.keepsNothing)

    let withHook = OwnedBlockOperation(owner: screen) {}
    onDeinit(of: withHook) { _, _ in }
    withHook.start()
    #expect(!withHook.keepsNothing)

    let withOwner = OwnedBlockOperation(owner: screen) {}
    onDeinit(of: screen.lifetime) { _, _ in }
    withOwner.start()
    #expect(!withOwner.keepsNothing)
    cancelDeinitHooks(of: screen.lifetime)
    #expect(withOwner.keepsNothing)

    let failed = OwnedBlockOperation(owner: screen) { throw CancellationError() }
    failed.start()
    #expect(!failed.keepsNothing)
  }

  /// A queue at rest keeps none.
  @Test func aQueueAtRestKeepsNone() {
    let operations = (0..<1000).map { _ in
      let operation = OwnedBlockOperation(owner: screen) {}
      queue.addOperation(operation)
      return WeakOperation(operation)
    }
    queue.waitUntilAllOperationsAreFinished()
    #expect(eventually { operations.allSatisfy { $0.operation == nil } })
  }

  // MARK: What nobody else knows finishes unheard

  /// Whether plain operations that depend on it from now on would hear of its finish.
  private func isHeardByThoseWhoComeLater(_ operation: Operation) -> Bool {
    let later = Operation()
    later.addDependency(operation)
    return later.isReady
  }

  /// Who starts an operation has it, and may go on with it.
  @Test func anOperationThatIsStartedByHandIsHeard() {
    let operation = OwnedBlockOperation(owner: screen) {}
    operation.start()
    #expect(isHeardByThoseWhoComeLater(operation))
  }

  /// Also if it is in a queue, and if that is done inside of other work of the same queue.
  @Test func anOperationOfAQueueThatIsStartedByHandIsHeard() {
    let isHeard = Event()
    queue.addOperation(
      OwnedBlockOperation(owner: screen) { [self] in
        let inner = OwnedBlockOperation(owner: screen) {}
        queue.addOperation(inner)  // one at a time: it waits
        inner.start()
        if isHeardByThoseWhoComeLater(inner) { isHeard.happen() }
      })
    #expect(queue.becomesIdle())
    #expect(isHeard.isPast)
  }

  /// Nobody has it but its body, which gives it to somebody.
  @Test func anOperationThatItsBodyHandsOnIsHeard() throws {
    let (body, somebody) = (Place(), Place())
    body.put(OwnedBlockOperation(owner: screen) { somebody.put(body.take()) })
    if let operation = body.take() {
      body.put(operation)
      queue.addOperation(operation)
    }
    #expect(queue.becomesIdle())
    let operation = try #require(somebody.take())
    // The queue is told first.
    let isHeard = eventually { [self] in isHeardByThoseWhoComeLater(operation) }
    #expect(isHeard)
  }

  private final class Place: Sendable {
    private let operation = Locked<OwnedOperation?>(nil)
    func put(_ operation: OwnedOperation?) { self.operation.withLock { $0 = operation } }
    func take() -> OwnedOperation? { operation.withLock { $0.take() } }
  }

  /// A plain operation that depends on it has it, though nobody else does; many, because its finish may come before, after, or meanwhile.
  @Test func whoDependsOnAnOperationThatNobodyElseHasHearsOfIt() {
    let plainOnes = OperationQueue()
    for _ in 0..<2_000 {
      let (plain, operation) = (BlockOperation {}, OwnedBlockOperation(owner: screen) {})
      plain.addDependency(operation)
      plainOnes.addOperation(plain)
      queue.addOperation(operation)
    }
    let allHaveRun = returns { plainOnes.waitUntilAllOperationsAreFinished() }
    #expect(allHaveRun)
  }

  /// Nobody else has it, but observers get it, after its finish and before.
  @Test(arguments: [OperationState.finished, .executing]) func anOperationThatIsObservedIsHeard(_ state: OperationState) {
    let isHeard = Event()
    func add() {
      let operation = OwnedBlockOperation(owner: screen) {}
      _ = operation.observe(\.state, owner: screen) { [self] _, operation, _ in
        guard operation.state == state else { return }
        operation.finish()
        if isHeardByThoseWhoComeLater(operation) { isHeard.happen() }
      }
      queue.addOperation(operation)
    }
    add()
    #expect(isHeard.happens())
  }

  /// While its body runs, that knows it without a reference.
  @Test func anOperationThatItsBodyFinishesIsHeard() {
    final class Known: @unchecked Sendable {  // written before it is shared
      unowned(unsafe) var operation: OwnedOperation?
    }
    let known = Known()
    let isHeard = Event()
    func add() {
      let operation = OwnedBlockOperation(owner: screen) { [self] in
        known.operation?.finish()
        if let operation = known.operation, isHeardByThoseWhoComeLater(operation) { isHeard.happen() }
      }
      known.operation = operation
      queue.addOperation(operation)
    }
    add()
    #expect(queue.becomesIdle())
    // The operation is over before its body.
    #expect(isHeard.happens())
  }

  /// It is kept until its completion block has run, which may know it without a reference, too.
  @Test func anOperationWithACompletionBlockIsHeard() {
    let isHeard = Event()
    func add() {
      let operation = OwnedBlockOperation(owner: screen) {}
      operation.completionBlock = { [self, unowned(unsafe) operation] in
        if isHeardByThoseWhoComeLater(operation) { isHeard.happen() }
      }
      queue.addOperation(operation)
    }
    add()
    #expect(isHeard.happens())
  }

  /// The place of a task is an operation that the queue lists, for whoever asks.
  @Test(arguments: [true, false]) func theListedPlaceOfATaskIsHeard(isOfOwner: Bool) async throws {
    let (begun, listed) = (Event(), Event())
    async let body: Void = queue.run(lifetime: screen.lifetimeToken.lifetime) {
      begun.happen()
      await listed.awaited()
    }
    await begun.awaited()
    let later = Operation()
    if isOfOwner {
      for operation in queue.operations(ownedBy: screen.lifetimeToken.lifetime) { later.addDependency(operation) }
    } else {
      for operation in queue.operations { later.addDependency(operation) }
    }
    #expect(later.dependencies.count == 1)
    #expect(!later.isReady)
    listed.happen()
    try await body
    let isReady = eventually { later.isReady }
    #expect(isReady)
  }

  #if !canImport(ObjectiveC)
    /// One look tells one reference from more, of whatever kind.
    @Test func allKindsOfReferencesAreSeen() {
      func make() -> Retained<OwnedOperation> { Retained(OwnedBlockOperation(owner: screen) {}) }
      let operation = make()
      defer { operation.release() }
      let known = operation.borrowed
      #expect(known.hasOneReference)
      let other = Retained(known.object)
      #expect(!known.hasOneReference)
      other.release()
      #expect(known.hasOneReference)
      let memory = MemoryReference(known.object)
      #expect(!known.hasOneReference)
      let isEmpty = memory.isEmpty
      #expect(!isEmpty)
    }

    @Test func aWeakReferenceIsSeenForGood() {
      let operation = Retained(Screen())
      defer { operation.release() }
      let known = operation.borrowed
      #expect(known.hasOneReference)
      do {
        let reference = Weakly<Screen>()
        reference.object = known.object
        #expect(!known.hasOneReference)
      }
      #expect(!known.hasOneReference)
    }
  #endif
}
