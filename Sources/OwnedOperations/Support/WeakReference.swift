/// A weak reference that may be shared.
final class WeakReference<Object: AnyObject>: @unchecked Sendable {  // written by the initialiser only; loading a weak reference is atomic
  private(set) weak var object: Object?

  init(_ object: Object) { self.object = object }
}
