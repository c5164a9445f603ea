/// A weak reference that may be shared.
final class WeakReference<Object: AnyObject>: @unchecked Sendable {  // loading a weak reference is atomic, whatever the object is
  weak let object: Object?

  init(_ object: Object) { self.object = object }
}
