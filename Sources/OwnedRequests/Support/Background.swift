import Dispatch
import Foundation
import OwnedOperations
import Synchronization

/// Where files are touched and code of the user's runs: decoders, validators, what is told at an end.
///
/// As many bodies as there are processors go to GCD, which runs them side by side. But GCD's threads may all be blocked, and then it adds
/// one in a second: a hundred decoders that wait would hold up all that comes behind them for a minute and a half, ends and limits of time
/// of other requests among it. So what comes while that many are under way goes to the library's calls in the background. There it is held
/// up for no longer than a few milliseconds by each that blocks.
enum Background {
  private static let underWay = Atomic<Int>(0)
  private static let most = ProcessInfo.processInfo.activeProcessorCount

  /// Any thread; doesn't wait. The closure is released when it has run.
  static func run(_ body: @escaping @Sendable () -> Void) {
    guard underWay.wrappingAdd(1, ordering: .relaxed).newValue <= most else {
      underWay.wrappingSubtract(1, ordering: .relaxed)
      return DeferredCalls.add(body)
    }
    DispatchQueue.global(qos: .userInitiated).async {
      body()
      underWay.wrappingSubtract(1, ordering: .relaxed)
    }
  }
}
