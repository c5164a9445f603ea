/// Pending work in the order of its arrival: a chain of chunks, each a run of items in one piece of memory.
///
/// 24 bytes a work item. Chunks start small, because most owners have little pending, and double up to 32 items. Those of full size come
/// from a pool and go back to it, so that a busy queue touches the same memory again and again. No chunk takes more than 1,000 bytes:
/// for a larger piece glibc's malloc first joins all small pieces that are free, as many as there have been closures.
///
/// Guarded by the queue's lock.
struct WorkList: ~Copyable {
  typealias ChunkPointer = UnsafeMutablePointer<Chunk>

  struct Chunk {
    fileprivate(set) var next: ChunkPointer?
    fileprivate(set) var start: Int32 = 0
    fileprivate(set) var end: Int32 = 0
    fileprivate let capacity: Int32

    fileprivate init(capacity: Int32) { self.capacity = capacity }

    fileprivate static let largest: Int32 = 32
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

  /// For tests that say memory stays flat: of the last chunk.
  var capacity: Int { Int(last?.pointee.capacity ?? 0) }

  init() {}

  /// Has the processor fetch the oldest items.
  func prefetch() { if let first { Prefetch.toWrite(UnsafeMutableRawPointer(first)) } }

  deinit {
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

  /// If the first chunk is used up, goes on to the next one. If it is the only one, uses it from the front again.
  /// - Returns: whether there is a next one.
  private mutating func dropFirstIfUsedUp(pool: inout ChunkPool) -> Bool {
    guard let chunk = first, chunk.pointee.start == chunk.pointee.end else { return false }
    guard chunk != last else {
      chunk.pointee.start = 0
      chunk.pointee.end = 0
      return false
    }
    first = chunk.pointee.next
    pool.give(chunk)
    return true
  }

  /// An empty list keeps the last chunk that it has had, which may be a large one.
  mutating func giveUpSpareMemory(_ pool: inout ChunkPool) {
    guard count == 0, let chunk = first, chunk == last, chunk.pointee.capacity > Chunk.smallest else { return }
    (first, last) = (nil, nil)
    pool.give(chunk)
  }

  /// No more than there is room for in a list at first.
  var hasFew: Bool { first == last && capacity <= Int(Chunk.smallest) }

  /// An empty list may keep a large chunk.
  var isEmptyOrHasFew: Bool { count == 0 || hasFew }

  /// Moves all items to the end of another list. `hasFew`.
  mutating func moveFew(to list: inout WorkList, pool: inout ChunkPool) {
    guard let chunk = first else { return }
    let items = Chunk.items(of: chunk) + Int(chunk.pointee.start)
    for index in 0..<count { list.makePlace(pool: &pool).moveInitialize(from: items + index, count: 1) }
    (chunk.pointee.start, chunk.pointee.end) = (0, 0)
    count = 0
  }

  /// Whether there is one item, which is a job, in a list that has had few.
  var isOneJob: Bool {
    guard count == 1, hasFew, let chunk = first else { return false }
    return Chunk.items(of: chunk)[Int(chunk.pointee.start)].account == .item
  }

  /// `isOneJob`.
  mutating func takeOnlyOne() -> WorkItem? {
    guard let chunk = first else { return nil }
    let item = (Chunk.items(of: chunk) + Int(chunk.pointee.start)).move()
    (chunk.pointee.start, chunk.pointee.end) = (0, 0)
    count = 0
    return item
  }

  /// Empty, and with no more room than a list has at first.
  var isSmall: Bool { count == 0 && hasFew }

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

  /// Puts items back before the oldest one.
  mutating func prepend(movingFrom source: UnsafeMutablePointer<WorkItem>, count returned: Int) {
    guard returned > 0 else { return }
    count += returned
    if let first, Int(first.pointee.start) >= returned {
      first.pointee.start -= Int32(returned)
      (Chunk.items(of: first) + Int(first.pointee.start)).moveInitialize(from: source, count: returned)
      return
    }
    var left = returned
    while left > 0 {
      let size = min(left, Int(Chunk.largest))
      left -= size
      let chunk = Chunk.allocate(capacity: Int32(size))
      Chunk.items(of: chunk).moveInitialize(from: source + left, count: size)
      chunk.pointee.end = Int32(size)
      chunk.pointee.next = first
      first = chunk
      if last == nil { last = chunk }
    }
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
    let taken = WorkList(first: first, last: last, count: count)
    first = nil
    last = nil
    count = 0
    return taken
  }

  private init(first: ChunkPointer?, last: ChunkPointer?, count: Int) {
    self.first = first
    self.last = last
    self.count = count
  }

  /// Calls `body` with each run of items that lie side by side, oldest first.
  func visitChunks(_ body: (UnsafeMutablePointer<WorkItem>, Int) -> Void) {
    var chunk = first
    while let current = chunk {
      let count = Int(current.pointee.end - current.pointee.start)
      if count > 0 { body(Chunk.items(of: current) + Int(current.pointee.start), count) }
      chunk = current.pointee.next
    }
  }

  /// The items are somebody else's to release. The chunks go with the list.
  func forgetItems() {
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

/// Chunks of full size that are not in use. Guarded by the queue's lock.
struct ChunkPool: ~Copyable {
  /// Beyond this the memory goes back: 256 chunks are some 200 kB.
  private static let most = 256
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
