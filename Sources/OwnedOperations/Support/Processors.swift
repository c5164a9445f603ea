import Foundation

/// What the machine has.
enum Processors {
  #if OWNED_OPERATIONS_MODEL
    /// As many as a run of the model has.
    nonisolated(unsafe) static var count = 2  // set before threads are there
  #else
    /// Two at least.
    static let count = max(2, ProcessInfo.processInfo.activeProcessorCount)
  #endif
}
