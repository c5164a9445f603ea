/// A reference that doesn't keep its object, and can be turned into one that does unless the object's last reference has gone.
///
/// It costs neither the side allocation of `weak` nor its atomic counts. In return, whoever holds it must be told in the object's deinit.
/// `retained()` may only be called under a lock that this deinit takes: the object's memory must still be there.
struct UnretainedReference<Object: AnyObject> {
  private let object: PlatformReference<Object>

  init(_ object: Object) { self.object = PlatformReference(object) }

  /// Where the object is, or was.
  var address: UnsafeMutableRawPointer { object.address }

  /// The object, unless its last reference has gone.
  func retained() -> Object? { object.retained() }

  func refers(to other: Object) -> Bool { object.mayReferTo(other) }
}
