import Foundation

/// Priorities as places in an array; the lowest number is the most urgent.
enum PriorityLevel {
  static let count = 5

  static func of(_ priority: Operation.QueuePriority) -> Int {
    switch priority {
    case .veryHigh: 0
    case .high: 1
    case .low: 3
    case .veryLow: 4
    default: 2
    }
  }

  static func name(of level: Int) -> String { ["very high", "high", "normal", "low", "very low"][level] }
}
