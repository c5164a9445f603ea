import Foundation

/// Why an owner ended.
public enum OwnerEndReason: Hashable, Sendable, CustomStringConvertible {
  /// Somebody called `end()`.
  case requested
  /// The last reference to its token went: the owner was deinitialised.
  case tokenReleased
  /// The object that the lifetime was made for with `OwnerLifetime.of(_:)` was deinitialised.
  case objectDeinitialised
  /// Its parent ended, or had ended before the lifetime was made.
  case parentEnded(OwnerID)
  /// The last reference to the lifetime itself went, so that nobody could have ended it.
  case released

  /// In words, for logs and messages.
  public var description: String {
    switch self {
    case .requested: "end() was called"
    case .tokenReleased: "its token was released"
    case .objectDeinitialised: "its object was deinitialised"
    case .parentEnded(let parent): "its parent \(parent) ended"
    case .released: "the last reference to its lifetime was released"
    }
  }

  /// What the lifetime's word keeps; the parent's identifier is kept beside it.
  var code: UInt32 {
    switch self {
    case .requested: 0
    case .tokenReleased: 1
    case .objectDeinitialised: 2
    case .parentEnded: 3
    case .released: 4
    }
  }

  init(code: UInt32, parent: OwnerID?) {
    switch (code, parent) {
    case (1, _): self = .tokenReleased
    case (2, _): self = .objectDeinitialised
    case (3, let parent?): self = .parentEnded(parent)
    case (4, _): self = .released
    default: self = .requested
    }
  }
}

/// What can be wrong with a call on a lifetime.
public enum OwnerLifetimeError: Error, Hashable, LocalizedError, CustomStringConvertible {
  /// The lifetimes named, each the child of the next, would be their own ancestors.
  case parentCycle([String])
  /// The lifetime named has ended: nothing about it can change any more.
  case alreadyEnded(String)
  /// The lifetime of the process can't get a parent.
  case neverEnds(String)

  /// What was attempted, what is wrong with it, and what to do.
  public var description: String {
    switch self {
    case .parentCycle(let path):
      "the parents would form a cycle: \(path.joined(separator: " -> ")); choose a parent that is not a descendant"
    case .alreadyEnded(let name):
      "\(name) can't get another parent, because it has ended; make a new lifetime"
    case .neverEnds(let name):
      "\(name) can't get a parent, because it is the lifetime of the process and never ends; make a lifetime of your own"
    }
  }

  /// The ``description``.
  public var errorDescription: String? { description }
}

extension Notification.Name {
  /// Posted once when an owner ends whose lifetime has ``OwnerLifetime/postsDidEndNotification`` set, after its hooks and on the
  /// thread that ended it. `object` is the lifetime (nil if the lifetime itself is being released); `userInfo` carries the `OwnerID` under
  /// ``OwnerLifetime/ownerIDKey``.
  public static let ownerDidEnd = Notification.Name("OwnedOperations.ownerDidEnd")
}

extension OwnerLifetime {
  /// The key of the `OwnerID` in the `userInfo` of `Notification.Name.ownerDidEnd`.
  public static let ownerIDKey = "ownerID"
}
