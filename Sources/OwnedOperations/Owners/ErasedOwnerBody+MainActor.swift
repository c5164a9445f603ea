extension ErasedOwnerBody {
  // As in `erase`: a struct, so that the closure keeps its calling convention.
  private struct TypedMain<Owner: AnyObject> { let call: @MainActor (Owner) -> Void }
  private struct Erased { let call: Body }

  /// A body of the main actor, which whoever has it calls on the main thread only. A synchronous closure of a global actor is called like
  /// any other.
  static func erase<Owner: AnyObject>(onMain body: consuming @escaping @MainActor (Owner) -> Void) -> Body {
    unsafeBitCast(TypedMain(call: consume body), to: Erased.self).call
  }
}
