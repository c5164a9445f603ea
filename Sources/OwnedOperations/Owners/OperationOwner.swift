/// An object on whose behalf work runs. Store a token; when the object is deinitialised, the token goes and the lifetime ends.
///
/// ```swift
/// final class Feed: OperationOwner, Sendable {
///   let lifetimeToken = OwnerLifetime.Token(name: "feed")
/// }
/// ```
///
/// Objects that can't store a token can be owners too: see ``OwnerLifetime/of(_:)-(AnyObject)``.
/// Owners that live on the main actor: see <doc:OwnersOnActors>. The conformance is not to be isolated to an actor, as in
/// `class Screen: @MainActor OperationOwner`: elsewhere the object would be taken for one without a token.
public protocol OperationOwner: AnyObject {
  /// Held by the owner alone, and the same one every time. Objects that end together may share one.
  var lifetimeToken: OwnerLifetime.Token { get }
}

extension OperationOwner {
  /// The lifetime of this owner, for work to hold.
  public var lifetime: OwnerLifetime { lifetimeToken.lifetime }

  /// Names this owner for the life of the process.
  public var ownerID: OwnerID { lifetimeToken.lifetime.id }
}

extension OwnerLifetime {
  /// What an owner holds. Its deinit ends the lifetime.
  public final class Token: Sendable {
    /// The lifetime that ends with this token.
    public let lifetime: OwnerLifetime

    /// Makes a token and its lifetime; the parameters are those of ``OwnerLifetime/init(name:parent:)``.
    public init(name: String? = nil, parent: OwnerLifetime? = nil) {
      lifetime = OwnerLifetime(name: name, parent: parent, flags: OwnerLifetime.Flag.announced)
    }

    deinit {
      lifetime.end(.tokenReleased)
    }
  }

  /// The lifetime of an owner that holds a token.
  public static func of(_ object: some OperationOwner) -> OwnerLifetime {
    object.lifetimeToken.lifetime
  }
}
