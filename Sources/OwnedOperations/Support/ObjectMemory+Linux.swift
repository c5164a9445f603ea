#if !canImport(ObjectiveC)
  import COwnedOperations

  /// What ``UnretainedReference`` is made of: an address.
  struct PlatformReference<Object: AnyObject> {
    private let object: Borrowed<Object>

    init(_ object: Object) { self.object = Borrowed(object) }
    var address: UnsafeMutableRawPointer { object.address }
    func mayReferTo(_ other: Object) -> Bool { object.refers(to: other) }
    func retained() -> Object? { object.retainUnlessReleased()?.take() }
  }

  /// A weak reference that holds on to the memory of its object, though not to the object.
  ///
  /// As long as the memory is held no other object can have its address, so comparing takes no reference and no atomic operation. And
  /// taking a strong reference goes without the detour of `weak`. Eight bytes. Not copyable: it lets go of the memory at its end.
  ///
  /// The memory of an object that is deinitialising can't be held. The compiler puts objects on the stack that escape nowhere but in their
  /// deinit, and the stack goes without asking who holds it. So such an object is not referred to in the first place.
  struct MemoryReference: ~Copyable, @unchecked Sendable {  // constant; the runtime's counts are atomic
    /// Where the object is, or was. Nobody else's as long as the memory is held.
    let address: UnsafeMutableRawPointer?

    init() { address = nil }

    init(_ object: AnyObject) {
      let object = Borrowed(object)
      if object.isDeinitialising {
        address = nil
      } else {
        coo_hold_memory(object.address)
        address = object.address
      }
    }

    deinit {
      if let address { coo_release_memory(address) }
    }

    /// Made of nothing, or of an object that was deinitialising.
    var isEmpty: Bool { address == nil }

    /// Whether the object's last reference has not gone.
    var isAlive: Bool { address.map { !coo_is_deinitialising($0) } ?? false }

    @inline(__always)  // asked for each job that is added
    func refers(to other: AnyObject) -> Bool { address == Borrowed(other).address }

    /// The object, unless its last reference has gone.
    @inline(__always)  // asked for each job that is run
    func retained() -> AnyObject? {
      retain()?.take()
    }

    /// Adds one reference and no more, not even for a moment; nil if the last one has gone.
    @inline(__always)  // asked for each job that is run
    func retain() -> Retained<AnyObject>? {
      guard let address, coo_try_retain(address) != nil else { return nil }
      return Retained(address: address)
    }
  }

  extension Borrowed {
    /// Adds a reference, unless the last one has gone. The memory must still be there.
    func retainUnlessReleased() -> Retained<Object>? { coo_try_retain(address) == nil ? nil : Retained(address: address) }

    /// How many strong references there are. The memory must still be there; writes nothing.
    @inline(__always)  // asked for each job that is run
    var referenceCount: Int { Int(coo_reference_count(address)) }

    /// Whether the reference that the caller knows of is the only one, strong, unowned and weak ones all told, and no weak one was ever
    /// made. Then no other can come to be but from it. False in doubt; writes nothing.
    var hasOneReference: Bool {
      let word = coo_reference_word(address)
      return word == FreshObject.referenceWord && word != 0
    }

    /// Whether the object's last strong reference has gone. The memory must still be there.
    var isDeinitialising: Bool { coo_is_deinitialising(address) }
  }

  private final class FreshObject: Sendable {
    /// That of an object with one reference; zero if it can't be told.
    static let referenceWord = {
      let reference = Retained(FreshObject())  // by hand: the compiler counts as it likes
      defer { reference.release() }
      return reference.borrowed.referenceCount == 1 ? coo_reference_word(reference.address) : 0
    }()
  }

  /// Whether an object still lives, asked of a weak reference. For attachments that nobody will tell in time.
  final class ObjectLiveness: @unchecked Sendable {  // written in `init` only; loading a weak reference is atomic with the object's end
    private weak var object: AnyObject?
    /// Keeps the memory of the dead object, so that its header can be asked without taking a strong reference.
    private unowned let memory: AnyObject
    private let reference: Borrowed<AnyObject>

    init(_ object: AnyObject) {
      self.object = object
      memory = object
      reference = Borrowed(object)
    }

    /// May be asked under a lock: it takes no reference, so the object can't deinitialise here.
    var isAlive: Bool { !reference.isDeinitialising }

    /// The object, for whoever must choose when to let go of it.
    func load() -> AnyObject? { object }
  }

  /// Objective-C's pool of references to be let go of later; there is none here.
  @inline(__always)  // around each round of a worker
  func withAutoreleasePool<Result>(_ body: () -> Result) -> Result { body() }
#endif
