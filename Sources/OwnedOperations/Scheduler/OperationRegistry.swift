import Foundation

/// The operations that a queue has and that have not finished, in the order in which they were added. Guarded by the queue's lock.
///
/// Each operation knows its place (`registryPlace`), so that finding and removing it takes constant time. Places of those that have gone
/// stay empty until half are; then the rest move up.
///
/// An entry holds its operation without the compiler's counting of references. Most steps of an operation's way through the queue look
/// here: that would be a dozen counts up and down for each operation. It doesn't hold its owner queue, which stays in its phase as long as
/// the operation is unfinished in there.
struct OperationRegistry: ~Copyable {
  struct Entry {
    let unretainedOperation: Borrowed<OwnedOperation>
    let unretainedOwnerQueue: Borrowed<OwnerQueue>
    /// A bit for each level at which a ready list has a work item of it. A work item is found to be out of date when its turn comes.
    var levels: UInt8 = 0
    /// Executes without a worker.
    var isDetached = false
    /// Where it stands among the watched.
    var watchList = WatchedOperations.List.none
    var watchPlace: Int32 = 0

    var operation: OwnedOperation { unretainedOperation.object }
    var ownerQueue: OwnerQueue { unretainedOwnerQueue.object }

    fileprivate init(_ operation: OwnedOperation, _ ownerQueue: Borrowed<OwnerQueue>) {
      unretainedOperation = Retained(operation).borrowed
      unretainedOwnerQueue = ownerQueue
    }
  }

  private var entries: ContiguousArray<Entry?> = []
  private(set) var count = 0

  init() {}

  deinit {
    for case let entry? in entries { Retained(adopting: entry.unretainedOperation).release() }
  }

  /// Gives the operation a place. Others may get new ones.
  mutating func insert(_ operation: OwnedOperation, ownerQueue: Borrowed<OwnerQueue>) -> Int {
    if entries.count >= 64, count * 2 < entries.count { compact() }
    entries.append(Entry(operation, ownerQueue))
    operation.registryPlace = entries.count - 1
    count += 1
    return entries.count - 1
  }

  /// The place of the operation; nil if it has finished, or was never here.
  func place(of operation: OwnedOperation) -> Int? {
    let place = operation.registryPlace
    guard entries.indices.contains(place), let entry = entries[place],
      entry.unretainedOperation.address == Borrowed(operation).address
    else { return nil }
    return place
  }

  /// Valid while the operation is here.
  subscript(place: Int) -> Entry {
    get { entries[place].unsafelyUnwrapped }
    set { entries[place] = newValue }
  }

  /// Takes the operation out, which the caller must hold.
  mutating func remove(_ operation: OwnedOperation) -> Entry? {
    guard let place = place(of: operation), let entry = entries[place] else { return nil }
    entries[place] = nil
    count -= 1
    if count == 0 { entries.removeAll(keepingCapacity: entries.count < 4096) }
    Retained(adopting: entry.unretainedOperation).release()
    return entry
  }

  private mutating func compact() {
    var kept = ContiguousArray<Entry?>()
    kept.reserveCapacity(count * 2)
    for case let entry? in entries {
      entry.unretainedOperation.with { $0.registryPlace = kept.count }
      kept.append(entry)
    }
    entries = kept
  }

  /// The items of operations of these owner queues have been taken out of the ready lists. Linear.
  mutating func forgetItems(in ownerQueues: [OwnerQueue]) {
    guard count > 0, !ownerQueues.isEmpty else { return }
    let ownerQueues = Set(ownerQueues.map(ObjectIdentifier.init))
    for place in entries.indices {
      if let entry = entries[place], ownerQueues.contains(ObjectIdentifier(entry.ownerQueue)) { entries[place]?.levels = 0 }
    }
  }

  /// Linear.
  var operations: [OwnedOperation] { entries.compactMap { $0?.operation } }

  /// Those of the lifetime, or all, for code of the user's.
  func giveOut(ownedBy lifetime: OwnerLifetime? = nil) -> [OwnedOperation] {
    let given = lifetime.map { operations(ownedBy: $0) } ?? operations
    for operation in given { operation.noteGivenOut() }
    return given
  }

  func operations(ownedBy lifetime: OwnerLifetime) -> [OwnedOperation] {
    entries.compactMap { $0?.operation.lifetime === lifetime ? $0?.operation : nil }
  }
}
