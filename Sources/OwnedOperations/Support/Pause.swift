#if !OWNED_OPERATIONS_MODEL
  import COwnedOperations
  import Foundation

  /// Passing a little time without giving up the processor.
  enum Pause {
    /// Whether something may happen meanwhile: others go on at the same time.
    static let passesTime = ProcessInfo.processInfo.activeProcessorCount > 1

    /// Takes between ten and fifty nanoseconds a round on today's processors.
    @inline(__always)  // one instruction
    static func spin(_ rounds: Int) {
      for _ in 0..<rounds { coo_pause() }
    }
  }
#endif
