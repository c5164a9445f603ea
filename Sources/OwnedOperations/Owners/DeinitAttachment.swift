/// Something that an object carries along without a stored property, and that hears of its end. At most one per object.
protocol DeinitAttachment: AnyObject, Sendable {
  /// The object is deinitialising. Called once, outside every lock, on the thread that dropped the last reference, before the object's
  /// deinit hooks. By weak reference: called late, by whoever finds that the object is gone, or never.
  func attachedObjectDidEnd()
}

/// Attachments found by address, and believed only when the weak reference kept with them still leads to the object that asks.
///
/// What belonged to dead objects is swept when the table has doubled since the last sweep: constant amortised time per attachment.
/// Nothing is released and nobody is called under its lock.
final class WeakAttachmentTable: Sendable {
  private struct Entry {
    let liveness: ObjectLiveness
    let attachment: any DeinitAttachment
  }

  private static let smallestSweep = 64

  private struct Table: ~Copyable {
    var entries = PointerMap<Entry>()
    var sweepAt = smallestSweep
  }

  private let table = Locked(Table())

  var count: Int { table.withLock { $0.entries.count } }

  /// See ``DeinitRegistry/attachment(of:create:)``.
  func attachment(of object: AnyObject, create: (ObjectLiveness?) -> any DeinitAttachment) -> any DeinitAttachment {
    // Made before the lock is taken: it may allocate the object's side table, and costs nothing when it turns out not to be needed.
    let liveness = ObjectLiveness(object)
    var dead: [any DeinitAttachment] = []
    var living: [AnyObject] = []  // may have become the last references to their objects, so they go after the lock
    defer { living.removeAll() }
    let result = table.withLock { table -> any DeinitAttachment in
      if let known = table.entries[object] {
        if known.liveness.load() === object { return known.attachment }
        dead.append(known.attachment)
      }
      let attachment = create(liveness)
      table.entries[object] = Entry(liveness: liveness, attachment: attachment)
      if table.entries.count >= table.sweepAt { Self.sweep(&table, dead: &dead, living: &living) }
      return attachment
    }
    for attachment in dead { attachment.attachedObjectDidEnd() }
    return result
  }

  private static func sweep(_ table: inout Table, dead: inout [any DeinitAttachment], living: inout [AnyObject]) {
    let entries = table.entries.removeThose { entry in
      guard let object = entry.liveness.load() else { return true }
      living.append(object)
      return false
    }
    dead += entries.map(\.attachment)
    table.sweepAt = max(smallestSweep, table.entries.count * 2)
  }
}
