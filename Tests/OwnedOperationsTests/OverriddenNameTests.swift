import Foundation
import OwnedOperations
import Testing

/// A `name` that is overridden is the user's code: it may block, and then holds up only who asks for it.
@Suite struct OverriddenNameTests {
  private struct Failure: Error {}

  private final class Named: OwnedOperation, @unchecked Sendable {  // constants
    let gate = Gate()
    let mayAnswer = DispatchSemaphore(value: 0)
    let wasCancelled = DispatchSemaphore(value: 0)

    override var name: String? {
      get {
        #expect(mayAnswer.waitUntilSignalled())
        mayAnswer.signal()
        return "named"
      }
      set {}
    }

    override func perform() throws {
      gate.pass()
      throw Failure()
    }

    override func didCancel(_ reason: CancellationReason) { wasCancelled.signal() }
  }

  let queue = OwnerScopedQueue()

  private func dependent(on operation: Operation, _ lifetime: OwnerLifetime = .forTests) -> OwnedOperation {
    let dependent = OwnedOperation(lifetime: lifetime)
    dependent.dependencyPolicy = .requireSuccess
    dependent.addDependency(operation)
    return dependent
  }

  /// Who cancels, or is out of time, tells the operation.
  @Test(arguments: [false, true]) func aCancelledOperationHearsOfIt(timesOut: Bool) {
    let operation = Named(lifetime: .forTests)
    let dependent = dependent(on: operation)
    if timesOut { operation.timeout = .milliseconds(1) }
    queue.addOperations([operation, dependent], waitUntilFinished: false)
    #expect(operation.gate.hasBegun())
    if !timesOut { Thread.detachNewThread { operation.cancel() } }
    #expect(operation.wasCancelled.waitUntilSignalled())
    operation.mayAnswer.signal()
    operation.gate.open()
    #expect(queue.becomesIdle())
    #expect(dependent.cancellationReason == .dependencyFailed("named"))
  }

  /// When it has failed, those who wait for it go on, and all that depends on it.
  @Test func whoWaitsForAFailureGoesOn() {
    let operation = Named(lifetime: .forTests)
    let strict = dependent(on: operation)
    let ran = DispatchSemaphore(value: 0)
    let other = OwnedBlockOperation(lifetime: .forTests) { ran.signal() }
    other.addDependency(operation)
    queue.addOperations([operation, strict, other], waitUntilFinished: false)
    #expect(operation.gate.hasBegun())
    operation.gate.open()
    #expect(returns { operation.waitUntilFinished() })
    #expect(ran.waitUntilSignalled())
    #expect(queue.becomesIdle())
    #expect(queue.statistics.failed == 1 && queue.statistics.cancelled == 1)
    operation.mayAnswer.signal()
    #expect(strict.cancellationReason == .dependencyFailed("named"))
    #expect(strict.cancellationReason == .dependencyFailed("named"))  // once is enough
  }

  /// What depends on the operations of an owner is told when that ends, and so is whoever waits.
  @Test func anEndOfAnOwnerIsTold() {
    let lifetime = OwnerLifetime()
    let operation = Named(lifetime: lifetime)
    let dependent = dependent(on: operation)
    lifetime.end()
    #expect(operation.wasCancelled.waitUntilSignalled())
    #expect(eventually { dependent.isCancelled })
    operation.mayAnswer.signal()
    #expect(dependent.cancellationReason == .dependencyFailed("named"))
  }
}
