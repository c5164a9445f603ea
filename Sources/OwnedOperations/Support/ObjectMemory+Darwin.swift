#if canImport(ObjectiveC)
  import CoreFoundation
  import ObjectiveC

  /// What ``UnretainedReference`` is made of: objects may be Objective-C's, which only `weak` knows.
  struct PlatformReference<Object: AnyObject> {
    private weak var object: Object?
    let address: UnsafeMutableRawPointer

    init(_ object: Object) {
      self.object = object
      address = Borrowed(object).address
    }

    func mayReferTo(_ other: Object) -> Bool { object == nil || object === other }
    func retained() -> Object? { object }
  }

  /// A weak reference that remembers where its object was. Not copyable, as where it holds on to memory.
  ///
  /// `@unchecked Sendable`: written in `init` only; loading a weak reference is atomic with the object's end.
  struct MemoryReference: ~Copyable, @unchecked Sendable {
    private weak var object: AnyObject?
    let address: UnsafeMutableRawPointer?

    init() { address = nil }

    init(_ object: AnyObject) {
      self.object = object
      address = Borrowed(object).address
    }

    /// Made of nothing, or of an object that was deinitialising or has gone.
    var isEmpty: Bool { object == nil }
    var isAlive: Bool { object != nil }
    func refers(to other: AnyObject) -> Bool { object === other }

    /// The object, unless its last reference has gone.
    func retained() -> AnyObject? { object }

    /// Adds one reference; nil if the last one has gone.
    func retain() -> Retained<AnyObject>? { object.map { Retained($0) } }
  }

  extension Borrowed {
    /// How many strong references there are, those in autorelease pools included.
    var referenceCount: Int { CFGetRetainCount(object) }
  }

  /// Whether an object still lives, asked of a weak reference. For attachments that nobody will tell in time.
  final class ObjectLiveness: @unchecked Sendable {  // written in `init` only; loading a weak reference is atomic with the object's end
    private weak var object: AnyObject?

    init(_ object: AnyObject) { self.object = object }

    var isAlive: Bool { object != nil }

    /// The object, for whoever must choose when to let go of it.
    func load() -> AnyObject? { object }
  }

  /// What is put into Objective-C's pool meanwhile is let go of at the end.
  func withAutoreleasePool<Result>(_ body: () -> Result) -> Result { autoreleasepool(invoking: body) }
#endif
