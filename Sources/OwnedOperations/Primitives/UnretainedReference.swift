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

/// A weak reference that holds on to the memory of its object, though not to the object.
///
/// As long as the memory is held no other object can have its address, so comparing takes no reference and no atomic operation; and
/// taking a strong reference goes without the detour of `weak`. Eight bytes. Not copyable: it lets go of the memory at its end.
///
/// The memory of an object that is deinitialising can't be held: the compiler puts objects on the stack that escape nowhere but in their deinit, and the stack
/// goes without asking who holds it. So such an object is not referred to in the first place.
struct MemoryReference: ~Copyable {
  #if canImport(ObjectiveC)
    private weak var object: AnyObject?

    init() {}
    init(_ object: AnyObject) { self.object = object }
    var isEmpty: Bool { object == nil }
    func refers(to other: AnyObject) -> Bool { object === other }
    func retained() -> AnyObject? { object }
  #else
    private let address: UnsafeMutableRawPointer?

    init() { address = nil }

    init(_ object: AnyObject) {
      let address = Unmanaged.passUnretained(object).toOpaque()
      if cdh_is_deinitialising(address) {
        self.address = nil
      } else {
        cdh_hold_memory(address)
        self.address = address
      }
    }

    deinit {
      if let address { cdh_release_memory(address) }
    }

    /// Made of nothing, or of an object that was deinitialising.
    var isEmpty: Bool { address == nil }

    @inline(__always)
    func refers(to other: AnyObject) -> Bool { address == Unmanaged.passUnretained(other).toOpaque() }

    /// The object, unless its last reference has gone.
    @inline(__always)
    func retained() -> AnyObject? {
      guard let address, cdh_try_retain(address) != nil else { return nil }
      return Unmanaged<AnyObject>.fromOpaque(address).takeRetainedValue()
    }
  #endif
}

#if !canImport(ObjectiveC)
  extension Unmanaged {
    /// Adds a reference, unless the last one has gone.
    func retainUnlessReleased() -> Bool { cdh_try_retain(toOpaque()) != nil }
  }
#endif
