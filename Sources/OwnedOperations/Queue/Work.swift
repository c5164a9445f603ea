import Foundation

/// One piece of work that a queue can start.
enum Work {
  /// A job with its owner: called with the object that the lifetime is bound to.
  case ownerBlock(@Sendable (AnyObject) -> Void)
  /// A job with a lifetime only, or with neither.
  case block(@Sendable () -> Void)
  /// A job that says whether it began, and how it ended.
  case reportingBlock(@Sendable (WorkBatch) -> WorkBatch.Result)
  case operation(OwnedOperation)
  case executorJob(UnownedJob)
  case graphNode(GraphRun, UInt32)
}

/// Pending work in the order of its arrival: a chain of chunks, each a run of records in one piece of memory.
///
/// 24 bytes a record. Chunks start small, because most owners have little pending, and double up to 128 records; those of full size
/// come from a pool and go back to it, so that a busy queue touches the same memory again and again.
/// Guarded by the queue's lock.
struct WorkList: ~Copyable {
  fileprivate typealias ChunkPointer = UnsafeMutablePointer<Chunk>

  fileprivate struct Chunk {
    var next: ChunkPointer?
    var start: Int32 = 0
    var end: Int32 = 0
    let capacity: Int32

    static let largest: Int32 = 128
    static let smallest: Int32 = 4

    /// Where the records begin, behind this header.
    static let headerSize = 32

    static func allocate(capacity: Int32) -> ChunkPointer {
      let size = headerSize + Int(capacity) * MemoryLayout<Work>.stride
      let memory = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 16)
      let chunk = memory.bindMemory(to: Chunk.self, capacity: 1)
      chunk.initialize(to: Chunk(capacity: capacity))
      (memory + headerSize).bindMemory(to: Work.self, capacity: Int(capacity))
      return chunk
    }

    static func records(of chunk: ChunkPointer) -> UnsafeMutablePointer<Work> {
      (UnsafeMutableRawPointer(chunk) + headerSize).assumingMemoryBound(to: Work.self)
    }
  }

  private var first: ChunkPointer?
  private var last: ChunkPointer?
  private(set) var count = 0

  init() {}

  deinit {
    var chunk = first
    while let current = chunk {
      chunk = current.pointee.next
      let records = Chunk.records(of: current) + Int(current.pointee.start)
      records.deinitialize(count: Int(current.pointee.end - current.pointee.start))
      UnsafeMutableRawPointer(current).deallocate()
    }
  }

  mutating func append(_ work: consuming Work, pool: inout ChunkPool) {
    var chunk: ChunkPointer
    if let last, last.pointee.end < last.pointee.capacity {
      chunk = last
    } else {
      chunk = addChunk(pool: &pool)
    }
    (Chunk.records(of: chunk) + Int(chunk.pointee.end)).initialize(to: work)
    chunk.pointee.end += 1
    count += 1
  }

  private mutating func addChunk(pool: inout ChunkPool) -> ChunkPointer {
    let capacity = last.map { min($0.pointee.capacity * 2, Chunk.largest) } ?? Chunk.smallest
    let chunk = capacity == Chunk.largest ? pool.take() : Chunk.allocate(capacity: capacity)
    if let last { last.pointee.next = chunk } else { first = chunk }
    last = chunk
    return chunk
  }

  /// Moves up to `limit` of the oldest records to `target`, which is not initialised there yet.
  mutating func moveFirst(_ limit: Int, to target: UnsafeMutablePointer<Work>, pool: inout ChunkPool) -> Int {
    var moved = 0
    while moved < limit, let chunk = first {
      let available = Int(chunk.pointee.end - chunk.pointee.start)
      let taken = min(available, limit - moved)
      (target + moved).moveInitialize(from: Chunk.records(of: chunk) + Int(chunk.pointee.start), count: taken)
      chunk.pointee.start += Int32(taken)
      moved += taken
      guard chunk.pointee.start == chunk.pointee.end else { break }
      if chunk == last {
        // The only chunk: use it from the front again.
        chunk.pointee.start = 0
        chunk.pointee.end = 0
        break
      }
      first = chunk.pointee.next
      pool.give(chunk)
    }
    count -= moved
    return moved
  }

  /// Puts records back before the oldest one.
  mutating func prepend(movingFrom source: UnsafeMutablePointer<Work>, count returned: Int) {
    guard returned > 0 else { return }
    let chunk = Chunk.allocate(capacity: Int32(returned))
    Chunk.records(of: chunk).moveInitialize(from: source, count: returned)
    chunk.pointee.end = Int32(returned)
    chunk.pointee.next = first
    first = chunk
    if last == nil { last = chunk }
    count += returned
  }

  /// Takes those records out that are not kept, and leaves the others in order. Linear.
  /// - Parameter isKept: for each record.
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

  /// Leaves the list empty; the records go with the result, outside the lock.
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

  /// Calls `body` with every record, oldest first.
  func visit(_ body: (borrowing Work) -> Void) {
    var chunk = first
    while let current = chunk {
      let records = Chunk.records(of: current)
      for index in Int(current.pointee.start)..<Int(current.pointee.end) { body(records[index]) }
      chunk = current.pointee.next
    }
  }
}

/// Records that were taken out of a queue to be released outside its lock.
final class TakenWork {
  private let list: WorkList

  init(_ list: consuming WorkList) { self.list = list }

  func visit(_ body: (borrowing Work) -> Void) { list.visit(body) }

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
