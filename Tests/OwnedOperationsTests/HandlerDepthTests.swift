import Foundation
import Testing

@testable import OwnedOperations

/// Functions that are kept behind a lock and looked at often are called as directly the last time as the first.
@Suite(.timeLimit(.minutes(1))) struct HandlerDepthTests {
  private struct Failure: Error {}

  private let lifetime = OwnerLifetime(name: "depth")
  private let depths = Journal<Int>()

  @Test func anErrorHandlerIsCalledDirectlyAfterManyErrors() {
    let queue = OwnerScopedQueue(name: "depth")
    queue.maxConcurrentOperationCount = 1
    queue.onError = { [depths] _, _ in depths.write(Thread.callStackReturnAddresses.count) }
    for _ in 0..<200 { queue.async(lifetime: lifetime) { throw Failure() } }
    queue.waitUntilAllOperationsAreFinished()
    DeferredCalls.waitUntilIdle()
    expectConstantDepth(of: 200)
  }

  @Test func aDelayedCallIsMadeDirectlyAfterManyLooks() {
    for looks in [1, 200] {
      let call = DrivenCall(.timeout, while: { true }, { [depths] in depths.write(Thread.callStackReturnAddresses.count) })
      for _ in 0..<looks { #expect(call.isPending) }
      call.perform()
    }
    expectConstantDepth(of: 2)
  }

  /// Foundation tells of so many calls and no more; a thunk or two for each look would reach that.
  private func expectConstantDepth(of count: Int) {
    let depths = depths.entries
    #expect(depths.count == count)
    #expect((depths.max() ?? 0) - (depths.min() ?? 0) < 20, "\(depths.min() ?? 0) to \(depths.max() ?? 0) calls deep")
  }
}
