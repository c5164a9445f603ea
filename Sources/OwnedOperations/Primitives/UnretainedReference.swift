#if !canImport(ObjectiveC)
  import CDeinitHook
#endif

/// A reference that doesn't keep its object, and can be turned into one that does unless the object's last reference has gone.
///
/// It costs neither the side allocation of `weak` nor its atomic counts. In return, whoever holds it must be told in the object's deinit, and
/// `retained()` may only be called under a lock that this deinit takes: the object's memory must still be there.
struct UnretainedReference<Object: AnyObject> {
  #if canImport(ObjectiveC)
    private weak var object: Object?

    init(_ object: Object) { self.object = object }
    func retained() -> Object? { object }
  #else
    private let object: Unmanaged<Object>

    init(_ object: Object) { self.object = .passUnretained(object) }
    func retained() -> Object? { object.retainUnlessReleased() ? object.takeRetainedValue() : nil }
  #endif
}

#if !canImport(ObjectiveC)
  extension Unmanaged {
    /// Adds a reference, unless the last one has gone.
    func retainUnlessReleased() -> Bool { cdh_try_retain(toOpaque()) != nil }
  }
#endif
