/// Names one owner for the life of the process.
///
/// Identifiers come from a counter and are never reused, unlike addresses. Work that remembers the identifier of an owner that has gone
/// can't mistake a newer owner for it. Ask ``OwnerLifetime/isAlive(_:)`` whether the owner is still there.
public struct OwnerID: Hashable, Sendable, CustomStringConvertible {
  /// The value of the counter. The first owner of the process has 1.
  public let rawValue: UInt64

  init(rawValue: UInt64) {
    self.rawValue = rawValue
  }

  /// For example `owner#42`.
  public var description: String { "owner#\(rawValue)" }
}

extension OwnerID: Comparable {
  /// Older owners order before younger ones.
  public static func < (left: OwnerID, right: OwnerID) -> Bool { left.rawValue < right.rawValue }
}
