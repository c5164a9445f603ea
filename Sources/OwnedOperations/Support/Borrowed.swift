/// A reference that doesn't count: somebody else keeps the object for as long as this is used.
///
/// To count a reference writes to the object, in a cache line that other threads read or write, too. In a job's way that costs more than
/// all the rest. Most of what is met on the way is kept by somebody known: an owner queue by its phase, a lifetime by its operation. Where
/// that is said in the declaration, this type stands for it.
///
/// An address, no more: it may be handed from thread to thread. What is done with the object there is for the object's own protocol to
/// allow. So `@unchecked Sendable`, whatever the object is.
struct Borrowed<Object: AnyObject>: @unchecked Sendable {
  private let unmanaged: Unmanaged<Object>

  @inline(__always)  // as all here: each is a move of a pointer
  init(_ object: Object) { unmanaged = .passUnretained(object) }

  /// - Parameter address: an object's, and of this class.
  @inline(__always)
  init(address: UnsafeMutableRawPointer) { unmanaged = .fromOpaque(address) }

  /// Where the object is, or was: good for comparing as long as somebody keeps at least its memory.
  @inline(__always)
  var address: UnsafeMutableRawPointer { unmanaged.toOpaque() }

  /// The object, counted from here on.
  @inline(__always)
  var object: Object { unmanaged.takeUnretainedValue() }

  /// Calls the body with the object, and counts nothing. The object stays for the call, because somebody else keeps it that long.
  ///
  /// Transparent, so that it counts nothing in debug builds either: `OwnerHold` compares counts while bodies are called this way.
  @_transparent
  func with<Result>(_ body: (Object) throws -> Result) rethrows -> Result {
    try unmanaged._withUnsafeGuaranteedRef(body)
  }

  @inline(__always)
  func refers(to other: Object) -> Bool { address == Unmanaged.passUnretained(other).toOpaque() }
}

/// A property that is a borrowed reference, or nil: as ``Borrowed``, where what is borrowed changes.
@propertyWrapper
struct Uncounted<Object: AnyObject> {
  private unowned(unsafe) var object: Object?

  @inline(__always)  // as all here: each is a move of a pointer
  init(wrappedValue: Object?) { object = wrappedValue }

  var wrappedValue: Object? {
    @inline(__always) get { object }
    @inline(__always) set { object = newValue }
  }
}

/// A reference that is counted by hand: whoever has it lets go of it once, by `release()` or `take()`. Until then the object stays.
struct Retained<Object: AnyObject>: @unchecked Sendable {  // as ``Borrowed``
  private let unmanaged: Unmanaged<Object>

  /// Adds a reference.
  @inline(__always)  // as all here: each is a move of a pointer, and a change of a count at most
  init(_ object: Object) { unmanaged = .passRetained(object) }

  /// A reference that was added already, and is let go of here instead of there.
  @inline(__always)
  init(adopting object: Borrowed<Object>) { unmanaged = .fromOpaque(object.address) }

  /// What was made into an address, to come through a C function or a word that is no reference.
  /// - Parameter address: of a `Retained` of the same class.
  @inline(__always)
  init(address: UnsafeMutableRawPointer) { unmanaged = .fromOpaque(address) }

  @inline(__always)
  var address: UnsafeMutableRawPointer { unmanaged.toOpaque() }

  @inline(__always)
  var borrowed: Borrowed<Object> { Borrowed(address: unmanaged.toOpaque()) }

  /// See ``Borrowed/with(_:)``.
  @_transparent
  func with<Result>(_ body: (Object) throws -> Result) rethrows -> Result {
    try unmanaged._withUnsafeGuaranteedRef(body)
  }

  /// Lets go of the reference, which may be the last.
  @inline(__always)
  func release() { unmanaged.release() }

  /// The reference, counted by the compiler from here on.
  @inline(__always)
  func take() -> Object { unmanaged.takeRetainedValue() }
}
