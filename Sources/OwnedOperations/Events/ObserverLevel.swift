/// Which of the observers of a notification is called first: the one of the higher level, whoever owns it. Among equals, the one that was
/// registered first.
///
/// ```swift
/// let beforeAllOthers: ObserverLevel = 2.5
/// print(ObserverLevel.low < .normal, .normal < .high, .high < beforeAllOthers)
/// ```
public struct ObserverLevel: Hashable, Comparable, Sendable, ExpressibleByFloatLiteral, ExpressibleByIntegerLiteral {
  /// Orders the levels. Any number but NaN.
  public let rawValue: Double

  /// -1: after the others.
  public static let low = ObserverLevel(-1)
  /// 0: what an observer has that says nothing.
  public static let normal = ObserverLevel(0)
  /// 1: before the others.
  public static let high = ObserverLevel(1)

  /// Makes a level between the others, or beyond them.
  /// - Precondition: it is a number.
  public init(_ rawValue: Double) {
    precondition(!rawValue.isNaN, "ObserverLevel(\(rawValue)) has no place among other levels, because it is not a number; take a number")
    self.rawValue = rawValue
  }

  /// Makes a level of a literal, such as `0.5`.
  public init(floatLiteral value: Double) { self.init(value) }
  /// Makes a level of a literal, such as `2`.
  public init(integerLiteral value: Int) { self.init(Double(value)) }

  /// Whether an observer of the left level is called after one of the right.
  public static func < (left: ObserverLevel, right: ObserverLevel) -> Bool { left.rawValue < right.rawValue }
}
