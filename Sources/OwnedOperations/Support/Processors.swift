import Foundation

/// What the machine has.
enum Processors {
  /// Two at least.
  static let count = max(2, ProcessInfo.processInfo.activeProcessorCount)
}
