import Foundation

/// One piece of work that a queue can start.
enum WorkItem {
  /// A job with its owner: called with the object that the lifetime is bound to.
  case ownerBlock(ErasedOwnerBody.Body)
  /// A job with a lifetime only, or with neither.
  case block(@Sendable () -> Void)
  /// A job with a lifetime that leaves something to be released when it is over: what runs then is no body.
  case leavingBlock(@Sendable () -> AnyObject?)
  /// A job with an owner that is not the object its lifetime is bound to: several objects share a token.
  case sharedOwnerBlock(SharedOwnerBody)
  case operation(OwnedOperation)
  case executorJob(UnownedJob)
  /// A piece of something that comes in pieces.
  case graphNode(any NodeRun, UInt32)

  var isOperation: Bool {
    if case .operation = self { true } else { false }
  }
}

/// See `WorkItem.sharedOwnerBlock`.
final class SharedOwnerBody: Sendable {
  let hold: OwnerHold
  let body: ErasedOwnerBody.Body

  init(_ hold: OwnerHold, _ body: @escaping ErasedOwnerBody.Body) {
    self.hold = hold
    self.body = body
  }
}

/// Pending work in the order of its arrival: a chain of chunks, each a run of items in one piece of memory.
///
/// 24 bytes a work item. Chunks start small, because most owners have little pending, and double up to 128 items; those of full size
/// come from a pool and go back to it, so that a busy queue touches the same memory again and again.
///
/// A worker may borrow a run of items where it lies, without copying it under the lock. The items are the worker's then, and no longer
/// the list's; the chunk stays where it is until the worker gives it back, also if the list has moved on (`isLinked` is false then).
///
/// Guarded by the queue's lock, but for the items that a worker has borrowed.
struct WorkList: ~Copyable {
  typealias ChunkPointer = UnsafeMutablePointer<Chunk>

  struct Chunk {
    fileprivate(set) var next: ChunkPointer?
    fileprivate(set) var start: Int32 = 0
    fileprivate(set) var end: Int32 = 0
    fileprivate let capacity: Int32
    /// How many workers have borrowed items of it.
    fileprivate(set) var borrowers: Int16 = 0
    fileprivate(set) var isLinked = true

    fileprivate init(capacity: Int32) { self.capacity = capacity }

    fileprivate static let largest: Int32 = 128
    fileprivate static let smallest: Int32 = 4

    /// Where the items begin, behind this header.
    private static let headerSize = 32

    fileprivate static func allocate(capacity: Int32) -> ChunkPointer {
      let size = headerSize + Int(capacity) * MemoryLayout<WorkItem>.stride
      let memory = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 16)
      let chunk = memory.bindMemory(to: Chunk.self, capacity: 1)
      chunk.initialize(to: Chunk(capacity: capacity))
      (memory + headerSize).bindMemory(to: WorkItem.self, capacity: Int(capacity))
      return chunk
    }

    fileprivate static func items(of chunk: ChunkPointer) -> UnsafeMutablePointer<WorkItem> {
      (UnsafeMutableRawPointer(chunk) + headerSize).assumingMemoryBound(to: WorkItem.self)
    }
  }

  private var first: ChunkPointer?
  private var last: ChunkPointer?
  private(set) var count = 0
  /// How many of the chunks in the list have borrowers.
  private var borrowedChunks = 0

  init() {}

  deinit {
    // No chunk has borrowers, see `leaveBorrowedChunks`.
    var chunk = first
    while let current = chunk {
      chunk = current.pointee.next
      let items = Chunk.items(of: current) + Int(current.pointee.start)
      items.deinitialize(count: Int(current.pointee.end - current.pointee.start))
      UnsafeMutableRawPointer(current).deallocate()
    }
  }

  /// Adds a work item, which the caller writes to the place returned before anybody looks.
  @inline(__always)  // for each job
  mutating func makePlace(pool: inout ChunkPool) -> UnsafeMutablePointer<WorkItem> {
    let chunk: ChunkPointer
    if let last, last.pointee.end < last.pointee.capacity {
      chunk = last
    } else {
      chunk = addChunk(pool: &pool)
    }
    let place = Chunk.items(of: chunk) + Int(chunk.pointee.end)
    chunk.pointee.end += 1
    count += 1
    return place
  }

  mutating func append(_ work: consuming WorkItem, pool: inout ChunkPool) { makePlace(pool: &pool).initialize(to: work) }

  private mutating func addChunk(pool: inout ChunkPool) -> ChunkPointer {
    let capacity = last.map { min($0.pointee.capacity * 2, Chunk.largest) } ?? Chunk.smallest
    let chunk = capacity == Chunk.largest ? pool.take() : Chunk.allocate(capacity: capacity)
    if let last { last.pointee.next = chunk } else { first = chunk }
    last = chunk
    return chunk
  }

  /// Moves up to `limit` of the oldest items to `target`, which is not initialised there yet.
  mutating func moveFirst(_ limit: Int, to target: UnsafeMutablePointer<WorkItem>, pool: inout ChunkPool) -> Int {
    var moved = 0
    while moved < limit, let chunk = first {
      let available = Int(chunk.pointee.end - chunk.pointee.start)
      let taken = min(available, limit - moved)
      (target + moved).moveInitialize(from: Chunk.items(of: chunk) + Int(chunk.pointee.start), count: taken)
      chunk.pointee.start += Int32(taken)
      moved += taken
      guard dropFirstIfUsedUp(pool: &pool) else { break }
    }
    count -= moved
    return moved
  }

  /// If the first chunk is used up, goes on to the next one, or uses it from the front again if it is the only one.
  /// - Returns: whether there is a next one.
  private mutating func dropFirstIfUsedUp(pool: inout ChunkPool) -> Bool {
    guard let chunk = first, chunk.pointee.start == chunk.pointee.end else { return false }
    guard chunk != last else {
      if chunk.pointee.borrowers == 0 {
        chunk.pointee.start = 0
        chunk.pointee.end = 0
      }
      return false
    }
    first = chunk.pointee.next
    unlink(chunk, pool: &pool)
    return true
  }

  private mutating func unlink(_ chunk: ChunkPointer, pool: inout ChunkPool) {
    chunk.pointee.isLinked = false
    if chunk.pointee.borrowers > 0 { borrowedChunks -= 1 } else { pool.give(chunk) }
  }

  /// Has the item at the index change places with the first. Linear in the chunks.
  mutating func swapFirst(with index: Int) {
    var left = index
    var chunk = first
    var oldest: UnsafeMutablePointer<WorkItem>?
    while let current = chunk {
      let items = Chunk.items(of: current) + Int(current.pointee.start)
      let count = Int(current.pointee.end - current.pointee.start)
      if oldest == nil, count > 0 { oldest = items }
      if left < count, let oldest {
        if left > 0 || oldest != items { swap(&oldest.pointee, &items[left]) }
        return
      }
      left -= count
      chunk = current.pointee.next
    }
  }

  // MARK: Borrowing

  /// The worker has no more to do with the chunk, which has left its list.
  static func giveBack(unlinked chunk: ChunkPointer, pool: inout ChunkPool) {
    chunk.pointee.borrowers -= 1
    if chunk.pointee.borrowers == 0 { pool.give(chunk) }
  }

  /// Up to `limit` of the oldest items, where they lie side by side. The list must not be empty.
  mutating func borrowFirst(_ limit: Int, pool: inout ChunkPool) -> (items: UnsafeMutablePointer<WorkItem>, count: Int, chunk: ChunkPointer)
  {
    while dropFirstIfUsedUp(pool: &pool) {}
    let chunk = first!
    let taken = min(Int(chunk.pointee.end - chunk.pointee.start), limit)
    let items = Chunk.items(of: chunk) + Int(chunk.pointee.start)
    chunk.pointee.start += Int32(taken)
    if chunk.pointee.borrowers == 0 { borrowedChunks += 1 }
    chunk.pointee.borrowers += 1
    count -= taken
    while dropFirstIfUsedUp(pool: &pool) {}
    return (items, taken, chunk)
  }

  /// The worker has no more to do with the chunk, which is in this list.
  mutating func giveBack(_ chunk: ChunkPointer, pool: inout ChunkPool) {
    chunk.pointee.borrowers -= 1
    guard chunk.pointee.borrowers == 0 else { return }
    borrowedChunks -= 1
    while dropFirstIfUsedUp(pool: &pool) {}
  }

  /// Puts items back before the oldest one.
  mutating func prepend(movingFrom source: UnsafeMutablePointer<WorkItem>, count returned: Int) {
    guard returned > 0 else { return }
    count += returned
    if let first, first.pointee.borrowers > 0, Int(first.pointee.start) >= returned,
      source + returned == Chunk.items(of: first) + Int(first.pointee.start)
    {
      // They have been borrowed, and still lie right before the oldest one.
      first.pointee.start -= Int32(returned)
      return
    }
    let chunk = Chunk.allocate(capacity: Int32(returned))
    Chunk.items(of: chunk).moveInitialize(from: source, count: returned)
    chunk.pointee.end = Int32(returned)
    chunk.pointee.next = first
    first = chunk
    if last == nil { last = chunk }
  }

  /// Takes those items out that are not kept, and leaves the others in order. Linear.
  /// - Parameter isKept: for each item.
  mutating func remove(keeping isKept: [Bool], pool: inout ChunkPool) -> WorkList {
    var removed = WorkList()
    let former = takeAll()
    var index = 0
    former.visit { work in
      if isKept[index] { append(copy work, pool: &pool) } else { removed.append(copy work, pool: &pool) }
      index += 1
    }
    return removed
  }

  /// Leaves the list empty; the items go with the result, outside the lock.
  mutating func takeAll() -> WorkList {
    leaveBorrowedChunks()
    let taken = WorkList(first: first, last: last, count: count)
    first = nil
    last = nil
    count = 0
    return taken
  }

  /// Leaves chunks with borrowers to them, and moves what else is in them to chunks of its own; called when the list is about to go.
  /// They are among the first few, for each worker borrows from the front.
  mutating func leaveBorrowedChunks() {
    var previous: ChunkPointer?
    var next = first
    while borrowedChunks > 0, let chunk = next {
      next = chunk.pointee.next
      guard chunk.pointee.borrowers > 0 else {
        previous = chunk
        continue
      }
      let left = chunk.pointee.end - chunk.pointee.start
      let replacement = Chunk.allocate(capacity: max(1, left))
      Chunk.items(of: replacement).moveInitialize(from: Chunk.items(of: chunk) + Int(chunk.pointee.start), count: Int(left))
      replacement.pointee.end = left
      replacement.pointee.next = next
      if let previous { previous.pointee.next = replacement } else { first = replacement }
      if chunk == last { last = replacement }
      previous = replacement
      chunk.pointee.isLinked = false
      borrowedChunks -= 1
    }
  }

  private init(first: ChunkPointer?, last: ChunkPointer?, count: Int) {
    self.first = first
    self.last = last
    self.count = count
  }

  fileprivate func visitChunks(_ body: (UnsafeMutablePointer<WorkItem>, Int) -> Void) {
    var chunk = first
    while let current = chunk {
      let count = Int(current.pointee.end - current.pointee.start)
      if count > 0 { body(Chunk.items(of: current) + Int(current.pointee.start), count) }
      chunk = current.pointee.next
    }
  }

  /// The items are somebody else's to release. The chunks go with the list.
  fileprivate func forgetItems() {
    var chunk = first
    while let current = chunk {
      current.pointee.start = current.pointee.end
      chunk = current.pointee.next
    }
  }

  /// Calls `body` with every item, oldest first.
  func visit(_ body: (borrowing WorkItem) -> Void) {
    var chunk = first
    while let current = chunk {
      let items = Chunk.items(of: current)
      for index in Int(current.pointee.start)..<Int(current.pointee.end) { body(items[index]) }
      chunk = current.pointee.next
    }
  }
}

extension WorkList {
  /// How many of the oldest items, up to a limit, the condition holds for without a gap.
  func countFirst(_ limit: Int, where condition: (borrowing WorkItem) -> Bool) -> Int {
    var found = 0
    var chunk = first
    while let current = chunk {
      let items = Chunk.items(of: current)
      for index in Int(current.pointee.start)..<Int(current.pointee.end) {
        guard found < limit, condition(items[index]) else { return found }
        found += 1
      }
      chunk = current.pointee.next
    }
    return found
  }
}

/// Work items that were taken out of a queue to be released outside its lock.
final class TakenWork {
  private var list: WorkList

  init(_ list: consuming WorkList) { self.list = list }

  /// Releases the items in the background, one by one: what they captured may have deinits of the user's.
  func release() {
    var released = WorkList()
    swap(&released, &list)
    DeferredReleases.add(ReleasedWork(released))
  }

  func visit(_ body: (borrowing WorkItem) -> Void) { list.visit(body) }

  var count: Int { list.count }

  /// Calls `body` with the nodes among the items, those of one run that follow each other together.
  private func forEachRun(_ body: (any NodeRun, [UInt32]) -> Void) {
    var current: (any NodeRun)?
    var nodes: [UInt32] = []
    visit { work in
      guard case .graphNode(let run, let number) = work else { return }
      if let current, current !== run {
        body(current, nodes)
        nodes = []
      }
      current = run
      nodes += run.nodes(of: number)
    }
    if let current { body(current, nodes) }
  }

  /// Has runs cancel the nodes among the items. Outside locks.
  func cancelNodes() { forEachRun { run, nodes in run.itemsWereTakenOut(nodes) } }

  /// Without the operations and nodes, which count themselves. Linear.
  var jobCount: Int {
    var count = 0
    list.visit { work in
      switch work {
      case .operation, .graphNode: return
      default: count += 1
      }
    }
    return count
  }
}

/// Work items to be released one by one. Each belongs to whoever claims its index.
private final class ReleasedWork: RelayBatch, @unchecked Sendable {  // constants, and memory of which each part is one claimer's
  private let list: WorkList
  /// The first item of each chunk, and its index.
  private var runs: [(start: Int, items: UnsafeMutablePointer<WorkItem>)] = []

  init(_ list: consuming WorkList) {
    let count = list.count
    self.list = list
    super.init(count: count)
    var start = 0
    self.list.visitChunks { items, count in
      runs.append((start, items))
      start += count
    }
    self.list.forgetItems()
  }

  override func takeStep(_ index: Int) {
    var (low, high) = (0, runs.count)
    while high - low > 1 {
      let middle = (low + high) / 2
      if runs[middle].start <= index { low = middle } else { high = middle }
    }
    (runs[low].items + (index - runs[low].start)).deinitialize(count: 1)
  }
}

/// Chunks of full size that are not in use. Guarded by the queue's lock.
struct ChunkPool: ~Copyable {
  /// Beyond this the memory goes back: 64 chunks are some 200 kB.
  private static let most = 64
  private var free: WorkList.ChunkPointer?
  private var count = 0

  init() {}

  deinit {
    var chunk = free
    while let current = chunk {
      chunk = current.pointee.next
      UnsafeMutableRawPointer(current).deallocate()
    }
  }

  fileprivate mutating func take() -> WorkList.ChunkPointer {
    guard let chunk = free else { return WorkList.Chunk.allocate(capacity: WorkList.Chunk.largest) }
    free = chunk.pointee.next
    count -= 1
    chunk.pointee.next = nil
    chunk.pointee.start = 0
    chunk.pointee.end = 0
    chunk.pointee.isLinked = true
    return chunk
  }

  fileprivate mutating func give(_ chunk: WorkList.ChunkPointer) {
    guard chunk.pointee.capacity == WorkList.Chunk.largest, count < Self.most else {
      UnsafeMutableRawPointer(chunk).deallocate()
      return
    }
    chunk.pointee.next = free
    free = chunk
    count += 1
  }
}
