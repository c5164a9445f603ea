import Foundation

/// Figures for people.
enum Figures {
  static func decimal(_ number: Double) -> String { String(format: "%.1f", number) }

  static func count(_ number: Int) -> String {
    var (left, groups) = (number, [String]())
    while left >= 1_000 {
      groups.insert(String(format: "%03d", left % 1_000), at: 0)
      left /= 1_000
    }
    return (["\(left)"] + groups).joined(separator: ",")
  }

  static func bytes(_ number: Int) -> String { decimal(Double(number) / Double(1 << 20)) + " MB" }

  static func time(_ nanoseconds: UInt64) -> String {
    let time = Double(nanoseconds)
    return time < 1e3 ? "\(nanoseconds) ns" : time < 1e6 ? decimal(time / 1e3) + " us" : decimal(time / 1e6) + " ms"
  }
}
