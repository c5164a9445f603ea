#if !canImport(ObjectiveC)
  import CDeinitHook
#endif

/// Something that an object carries along without a stored property, and that hears of its end. At most one per object.
protocol DeinitAttachment: AnyObject, Sendable {
  /// The object is deinitialising. Called once, outside every lock, on the thread that dropped the last reference, before the object's
  /// deinit hooks. By weak reference: called late, by whoever finds that the object is gone, or never.
  func attachedObjectDidEnd()
}

/// Whether an object still lives, asked of a weak reference. For attachments that nobody will tell in time.
///
/// `@unchecked Sendable`: the references are written in `init` only; loading a weak reference is atomic with the object's end.
final class ObjectLiveness: @unchecked Sendable {
  private weak var object: AnyObject?
  #if !canImport(ObjectiveC)
    /// Keeps the memory of the dead object, so that its header can be asked without taking a strong reference.
    private unowned let memory: AnyObject
    private let address: UnsafeMutableRawPointer
  #endif

  init(_ object: AnyObject) {
    self.object = object
    #if !canImport(ObjectiveC)
      memory = object
      address = Unmanaged.passUnretained(object).toOpaque()
    #endif
  }

  /// May be asked under a lock: on Linux it takes no reference, so the object can't deinitialise here.
  var isAlive: Bool {
    #if canImport(ObjectiveC)
      object != nil
    #else
      !cdh_is_deinitialising(address)
    #endif
  }

  /// The object, for whoever must choose when to let go of it.
  fileprivate func load() -> AnyObject? { object }
}

/// Attachments found by address, and believed only when the weak reference kept with them still leads to the object that asks.
///
/// What belonged to dead objects is swept when the table has doubled since the last sweep: constant amortised time per attachment.
///
/// `@unchecked Sendable`: the variables are guarded by `lock`; nothing is released and nobody is called under it.
final class WeakAttachmentTable: @unchecked Sendable {
  private struct Entry {
    let liveness: ObjectLiveness
    let attachment: any DeinitAttachment
  }

  private static let smallestSweep = 64

  private let lock = Lock()
  private var entries: [UInt: Entry] = [:]
  private var sweepAt = smallestSweep

  var count: Int { lock.withLock { entries.count } }

  /// See ``DeinitRegistry/attachment(of:create:)``.
  func attachment(of object: AnyObject, create: (ObjectLiveness?) -> any DeinitAttachment) -> any DeinitAttachment {
    let key = UInt(bitPattern: Unmanaged.passUnretained(object).toOpaque())
    // Made before the lock is taken: it may allocate the object's side table, and costs nothing when it turns out not to be needed.
    let liveness = ObjectLiveness(object)
    var dead: [any DeinitAttachment] = []
    var living: [AnyObject] = []  // may have become the last references to their objects, so they go after the lock
    defer { living.removeAll() }
    let result = lock.withLock { () -> any DeinitAttachment in
      if let known = entries[key] {
        if known.liveness.load() === object { return known.attachment }
        dead.append(known.attachment)
      }
      let attachment = create(liveness)
      entries[key] = Entry(liveness: liveness, attachment: attachment)
      if entries.count >= sweepAt { sweep(dead: &dead, living: &living) }
      return attachment
    }
    for attachment in dead { attachment.attachedObjectDidEnd() }
    return result
  }

  private func sweep(dead: inout [any DeinitAttachment], living: inout [AnyObject]) {
    var gone: [UInt] = []
    for (key, entry) in entries {
      if let object = entry.liveness.load() {
        living.append(object)
      } else {
        gone.append(key)
        dead.append(entry.attachment)
      }
    }
    for key in gone { entries[key] = nil }
    sweepAt = max(Self.smallestSweep, entries.count * 2)
  }
}
