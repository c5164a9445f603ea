import Synchronization

/// What objects carry without a stored property: an attachment (their lifetime) and deinit hooks, by address, in ``DeinitShard``s.
///
/// The table holds no reference to the objects. An address in it is good because its object can't go without coming through
/// ``objectDeinitialises(_:)``, which takes the entry out. The mechanism (see ``DeinitHookMechanism``) sees to that. By weak reference
/// there is no such call. Then attachments are kept in a ``WeakAttachmentTable``, and hooks are refused.
///
/// When an object ends, the thread that dropped the last reference first tells its attachment and releases it. Then it runs the object's
/// hooks one by one in order of identifier. Each is taken out of the table under the shard's lock just before it runs. So it runs at most
/// once, and can be cancelled until then. No lock is held while anything of the user's runs or is released.
final class DeinitRegistry: Sendable {
  static let shared = DeinitRegistry(mechanism: DeinitHookMechanism.detect())

  private static let shardBits = 6
  private static let identifiers = Atomic<UInt64>(0)

  let mechanism: DeinitHookMechanism
  let weakAttachments = WeakAttachmentTable()

  private let shards = RawStorage<DeinitShard>(capacity: 1 << shardBits)

  /// Tests make registries of their own, by weak reference. All others must be ``shared``, which the destroyers know.
  init(mechanism: DeinitHookMechanism) {
    self.mechanism = mechanism
    for index in 0..<(1 << Self.shardBits) { (shards.start + index).initialize(to: DeinitShard(seed: UInt64(index))) }
  }

  deinit {
    shards.start.deinitialize(count: 1 << Self.shardBits)
  }

  private func shard(of key: UInt) -> UnsafeMutablePointer<DeinitShard> {
    shards.start + AddressHash(key).shard(Self.shardBits)
  }

  // Hooks -----------------------------------------------------------------------------------------------------------

  /// - Throws: ``DeinitHookError``, when the object is deinitialising or can't carry a hook.
  func install(on object: AnyObject, name: String?, body: @escaping DeinitHookNode.Body) throws(DeinitHookError) -> DeinitHook {
    guard mechanism != .weakReference else { throw .hooksUnavailable(type: Self.typeName(of: object)) }
    guard !Self.isDeinitialising(object) else { throw .objectIsDeinitialising(type: Self.typeName(of: object)) }
    guard prepare(object) else { throw .classCannotBeHooked(type: Self.typeName(of: object)) }
    Self.noteUse()
    let key = Self.key(of: object)
    let shard = shard(of: key)
    let node = DeinitHookNode(name: name, body: body)
    shard.pointee.lock.lock()
    let identifier = Self.nextIdentifier()
    let slot = shard.pointee.insertingSlot(of: key)
    let replaced = Mutation.formerHookStays.isOn ? nil : name.flatMap { shard.pointee.entry(at: slot).pointee.hooks.remove(name: $0) }
    shard.pointee.entry(at: slot).pointee.hooks.append(node, identifier: identifier)
    shard.pointee.lock.unlock()
    withExtendedLifetime(replaced) {}  // releases its captures, outside the lock
    return DeinitHook(identifier: identifier, key: key)
  }

  static func nextIdentifier() -> UInt64 { identifiers.wrappingAdd(1, ordering: .relaxed).newValue }

  func cancel(_ hook: DeinitHook) -> Bool {
    guard hook.key != 0 else { return false }
    let shard = shard(of: hook.key)
    shard.pointee.lock.lock()
    var removed: DeinitHookNode?
    if let slot = shard.pointee.slot(of: hook.key) {
      removed = shard.pointee.entry(at: slot).pointee.hooks.remove(identifier: hook.identifier)
      if shard.pointee.entry(at: slot).pointee.isEmpty { shard.pointee.remove(at: slot) }
    }
    shard.pointee.lock.unlock()
    return withExtendedLifetime(removed) { removed != nil || Mutation.hookIsCancelledWhileItRuns.isOn }
  }

  func cancelHooks(of object: AnyObject) {
    let key = Self.key(of: object)
    let shard = shard(of: key)
    guard shard.pointee.mayContain(key) else { return }
    shard.pointee.lock.lock()
    var hooks = DeinitHookList()
    if let slot = shard.pointee.slot(of: key) {
      swap(&hooks, &shard.pointee.entry(at: slot).pointee.hooks)
      if shard.pointee.entry(at: slot).pointee.isEmpty { shard.pointee.remove(at: slot) }
    }
    shard.pointee.lock.unlock()
    while hooks.popFirst() != nil {}
  }

  /// Whether hooks may hang on the object, or a lifetime. False is certain, if nobody adds any meanwhile. Takes no lock, and makes no
  /// registry where none is needed.
  static func mayKnow(_ object: AnyObject) -> Bool {
    guard isInUse.load(ordering: .acquiring) else { return false }
    let key = key(of: object)
    return shared.mechanism == .weakReference || shared.shard(of: key).pointee.mayContain(key)
  }

  /// Whether there was anything to know.
  private static let isInUse = Atomic(false)

  private static func noteUse() { if !isInUse.load(ordering: .relaxed) { isInUse.store(true, ordering: .releasing) } }

  func isInstalled(_ hook: DeinitHook) -> Bool {
    guard hook.key != 0 else { return false }
    let shard = shard(of: hook.key)
    return shard.pointee.lock.withLock {
      guard let slot = shard.pointee.slot(of: hook.key) else { return false }
      return shard.pointee.entry(at: slot).pointee.hooks.contains(identifier: hook.identifier)
    }
  }

  // Attachments -----------------------------------------------------------------------------------------------------

  /// The one attachment of an object: the same for every caller, on every thread, until the object ends.
  ///
  /// - Parameter create: makes it, at most once per object. Called under the lock of a shard, so it must not call back into the registry
  ///   nor release anything that runs code of the user's. Where nobody will tell the attachment in time, it gets a way to ask whether the
  ///   object still lives. It gets nil where ``DeinitAttachment/attachedObjectDidEnd()`` will be called promptly.
  /// - Returns: nil when the object is already deinitialising.
  func attachment(of object: AnyObject, create: (ObjectLiveness?) -> any DeinitAttachment) -> (any DeinitAttachment)? {
    Self.noteUse()
    let key = Self.key(of: object)
    let shard = shard(of: key)
    if mechanism != .weakReference, shard.pointee.mayContain(key) {
      let known = shard.pointee.lock.withLock { shard.pointee.slot(of: key).flatMap { shard.pointee.entry(at: $0).pointee.attachment } }
      if let known { return known }
    }
    if Self.isDeinitialising(object) { return nil }
    guard mechanism != .weakReference, prepare(object) else { return weakAttachments.attachment(of: object, create: create) }
    return shard.pointee.lock.withLock {
      let slot = shard.pointee.insertingSlot(of: key)
      if let known = shard.pointee.entry(at: slot).pointee.attachment, !Mutation.attachmentIsMadeTwice.isOn { return known }
      let made = create(nil)
      shard.pointee.entry(at: slot).pointee.attachment = made
      return made
    }
  }

  // The end ---------------------------------------------------------------------------------------------------------

  /// Called for every instance of a hooked class that dies, on the thread that dropped its last reference. Without a lock when
  /// the object carries nothing.
  func objectDeinitialises(_ object: UnsafeMutableRawPointer) {
    let key = UInt(bitPattern: object)
    let shard = shard(of: key)
    if shard.pointee.mayContain(key) { EndingObject.with(object) { end(object, key, shard) } }
  }

  @inline(never)
  private func end(_ object: UnsafeMutableRawPointer, _ key: UInt, _ shard: UnsafeMutablePointer<DeinitShard>) {
    var isLast = false
    while !isLast {
      let step: EndStep?
      (step, isLast) = takeStep(key, shard)
      switch step {
      case .attachment(let attachment): attachment.attachedObjectDidEnd()
      case .hook(let node): node.body(Unmanaged.fromOpaque(object), DeinitHook(identifier: node.identifier, key: key))
      case nil: return  // an earlier step cancelled the rest
      }
    }
  }

  private enum EndStep {
    case attachment(any DeinitAttachment)
    case hook(DeinitHookNode)
  }

  private func takeStep(_ key: UInt, _ shard: UnsafeMutablePointer<DeinitShard>) -> (step: EndStep?, isLast: Bool) {
    shard.pointee.lock.lock()
    defer { shard.pointee.lock.unlock() }
    guard let slot = shard.pointee.slot(of: key) else { return (nil, true) }
    let step: EndStep?
    if let attachment = shard.pointee.entry(at: slot).pointee.attachment {
      shard.pointee.entry(at: slot).pointee.attachment = nil  // `attachment` still holds it
      step = .attachment(attachment)
    } else {
      step = shard.pointee.entry(at: slot).pointee.hooks.popFirst().map { .hook($0) }
    }
    let isLast = shard.pointee.entry(at: slot).pointee.isEmpty
    if isLast { shard.pointee.remove(at: slot) }
    return (step, isLast)
  }

  // Introspection, for tests ----------------------------------------------------------------------------------------

  /// Objects that carry something, and the slots there are for them.
  var occupancy: (objects: Int, slots: Int) {
    var sum = (objects: 0, slots: 0)
    for index in 0..<(1 << Self.shardBits) {
      let shard = shards.start + index
      shard.pointee.lock.lock()
      sum.objects += shard.pointee.live
      sum.slots += shard.pointee.capacity
      shard.pointee.lock.unlock()
    }
    return sum
  }

  /// Shows that what is done meanwhile needs no lock.
  func withEveryShardLocked(_ body: () -> Void) {
    for index in 0..<(1 << Self.shardBits) { shards[index].lock.lock() }
    body()
    for index in 0..<(1 << Self.shardBits) { shards[index].lock.unlock() }
  }

  static func key(of object: AnyObject) -> UInt { UInt(bitPattern: Borrowed(object).address) }

  private static func typeName(of object: AnyObject) -> String { String(describing: type(of: object)) }
}
