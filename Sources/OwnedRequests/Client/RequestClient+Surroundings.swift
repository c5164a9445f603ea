import Foundation
import OwnedOperations

/// What a run needs beside its client. In the model build a scenario has these.
extension RequestClient {
  /// For what touches files or runs code of the user's. It has no place on the queue of the timers, nor on the threads of tasks, of which
  /// there are as many as processors.
  func inBackground(_ body: @escaping @Sendable () -> Void) { DispatchQueue.global(qos: .userInitiated).async(execute: body) }

  /// For ends that bring no answer, those by limits of time among them. They must not wait behind decoders: GCD's threads may all be
  /// blocked, and then it adds one in a second.
  func endInBackground(_ body: @escaping @Sendable () -> Void) { DeferredCalls.add(body) }

  func timer(after delay: Duration, _ body: @escaping @Sendable () -> Void) -> OneShotTimer { OneShotTimer(after: delay, body) }
}
