/// Bodies that get their owner, with the type of the owner forgotten.
///
/// A class is one pointer whatever its type, and is passed as such. So the closure itself can be called with any object, and must be called
/// with one of its type. That saves wrapping it in another, and the references that such a wrapper may hold: they would count as somebody
/// else's, see `OwnerHold`.
enum ErasedOwnerBody {
  typealias Body = @Sendable (AnyObject) -> Void
  typealias ThrowingBody = @Sendable (AnyObject) throws -> Void

  // A closure in a struct keeps its own calling convention when it is cast. Bare, it would be wrapped in another for the cast, and again
  // behind it.
  private struct Typed<Owner: AnyObject> { let call: @Sendable (Owner) -> Void }
  private struct Erased { let call: Body }
  private struct TypedThrowing<Owner: AnyObject> { let call: @Sendable (Owner) throws -> Void }
  private struct ErasedThrowing { let call: ThrowingBody }

  @inline(__always)  // the generic type must be known where the closure is moved, or it is copied
  static func erase<Owner: AnyObject>(_ body: consuming @escaping @Sendable (Owner) -> Void) -> Body {
    unsafeBitCast(Typed(call: consume body), to: Erased.self).call
  }

  static func eraseThrowing<Owner: AnyObject>(_ body: consuming @escaping @Sendable (Owner) throws -> Void) -> ThrowingBody {
    unsafeBitCast(TypedThrowing(call: consume body), to: ErasedThrowing.self).call
  }
}
