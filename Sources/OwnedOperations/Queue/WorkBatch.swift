import Synchronization

/// What a worker has taken from the ready lists and runs without the queue's lock, and others can take away from it again.
///
/// ## Protocol
///
/// - The worker fills the batch under the queue's lock, when it is empty, and publishes it by storing `cursor` = (0, count).
/// - A record is begun by moving the cursor's low half past it (compare and exchange). Whoever wants the rest back, to give it to other workers or
///   because its owner has ended, moves the high half down to the low half, under the queue's lock. One of the two wins each record.
/// - The records lie in the batch's own memory; or, if all are of one lane and side by side there, they stay in the lane's chunk, which
///   the batch borrows until the worker settles (`source`, `borrowed`). Copying them under the lock would have the lock wait for each cache line that
///   whoever added them has written.
/// - `results[i]` is written by the worker when record i is over, before it moves the cursor on (releasing). So who loads the
///   cursor (acquiring) under the lock may read the results before the last one begun, and `settle` counts them.
/// - `lanes`, `source`, `borrowed`, `count`, `level` and `settled` change under the lock only. Records that are not begun are moved out under the lock only.
final class WorkBatch: Sendable {
  static let capacity = 128
  /// Fewer records than this are copied, so that those of other lanes can join them.
  static let leastBorrowed = 8

  enum Result: UInt8 {
    case succeeded, failed, cancelled, skipped
    /// Operations tell the queue themselves when they finish.
    case countsItself
  }

  nonisolated(unsafe) private let records = UnsafeMutablePointer<Work>.allocate(capacity: capacity)
  nonisolated(unsafe) private let lanes = UnsafeMutablePointer<Unmanaged<Lane>>.allocate(capacity: capacity)
  nonisolated(unsafe) private let results = UnsafeMutablePointer<Result>.allocate(capacity: capacity)
  /// For each record, how many graph nodes it has led to that are over and succeeded. Written by the worker (releasing), zeroed when the batch is published.
  nonisolated(unsafe) private let nodesOver = UnsafeMutablePointer<Atomic<Int>>.allocate(capacity: capacity)
  /// What a node of a graph has led to and the worker has not begun.
  let nodeStack = NodeStack()
  private let cursor = Atomic<UInt64>(0)

  // Guarded by the queue's lock.
  /// Where the records are.
  nonisolated(unsafe) private var source: UnsafeMutablePointer<Work>
  nonisolated(unsafe) private var borrowed: (chunk: WorkList.ChunkPointer, lane: Unmanaged<Lane>)?
  nonisolated(unsafe) private(set) var count = 0
  nonisolated(unsafe) private var settled = 0
  /// Of the first record that is not settled.
  nonisolated(unsafe) private var settledNodes = 0
  nonisolated(unsafe) private(set) var level = 0

  init() {
    source = records
    for index in 0..<Self.capacity { (nodesOver + index).initialize(to: Atomic(0)) }
  }

  deinit {
    // A worker only goes with an empty batch.
    records.deallocate()
    lanes.deallocate()
    results.deallocate()
    nodesOver.deallocate()
  }

  private static func split(_ cursor: UInt64) -> (next: Int, end: Int) { (Int(cursor & 0xFFFF_FFFF), Int(cursor >> 32)) }
  private static func join(next: Int, end: Int) -> UInt64 { UInt64(next) | UInt64(end) << 32 }

  // MARK: Under the queue's lock

  /// Borrows up to `limit` records of the lane. The batch must be empty, and is full then.
  func borrow(from lane: Lane, limit: Int, pool: inout ChunkPool) -> Int {
    let run = lane.work.borrowFirst(limit, pool: &pool)
    source = run.records
    borrowed = (run.chunk, .passUnretained(lane))
    lanes.update(repeating: .passUnretained(lane), count: run.count)
    count = run.count
    return run.count
  }

  /// Moves up to `limit` records of the lane to the end of the batch, which has not been published.
  func fill(from lane: Lane, limit: Int, pool: inout ChunkPool) -> Int {
    let moved = lane.work.moveFirst(limit, to: records + count, pool: &pool)
    (lanes + count).update(repeating: .passUnretained(lane), count: moved)
    count += moved
    return moved
  }

  func publish(level: Int) {
    self.level = level
    settled = 0
    settledNodes = 0
    for index in 0..<count { nodesOver[index].store(0, ordering: .relaxed) }
    cursor.store(Self.join(next: 0, end: count), ordering: .releasing)
  }

  /// How records of one lane that followed each other have ended.
  struct Tally {
    var records = 0
    var succeeded = 0
    var failed = 0
    var cancelled = 0
    var skipped = 0
    /// Graph nodes that are over and succeeded.
    var nodes = 0

    /// Those that the queue counts; the rest count themselves.
    var counted: Int { succeeded + failed + cancelled + skipped }

    fileprivate mutating func add(_ result: Result) {
      records += 1
      switch result {
      case .succeeded: succeeded += 1
      case .failed: failed += 1
      case .cancelled: cancelled += 1
      case .skipped: skipped += 1
      case .countsItself: break
      }
    }
  }

  /// Calls `body` for each run of records of one lane that are over and have not been counted. The worker itself passes true, between batches; for others the last
  /// record begun counts as still running, and `body` gets its nodes only.
  func settle(isWorker: Bool, _ body: (Lane, Tally) -> Void) {
    let (next, _) = Self.split(cursor.load(ordering: .acquiring))
    let over = isWorker ? next : next - 1
    while settled < over {
      let lane = lanes[settled]
      var tally = Tally()
      repeat {
        tally.nodes += nodesOver[settled].load(ordering: .relaxed) - settledNodes
        tally.add(results[settled])
        settled += 1
        settledNodes = 0
      } while settled < over && lanes[settled].toOpaque() == lane.toOpaque()
      lane._withUnsafeGuaranteedRef { body($0, tally) }
    }
    if settled < next {
      let nodes = nodesOver[settled].load(ordering: .acquiring)
      if nodes > settledNodes { lanes[settled]._withUnsafeGuaranteedRef { body($0, Tally(nodes: nodes - settledNodes)) } }
      settledNodes = nodes
    }
    if isWorker {
      count = 0
      settled = 0
      cursor.store(0, ordering: .relaxed)
    }
  }

  /// The worker has begun all that it will begin. Before `settle` counts the last record: the lane may go then.
  func giveBackChunk(pool: inout ChunkPool) {
    guard let (chunk, lane) = borrowed else { return }
    borrowed = nil
    source = records
    // If the lane has gone, because all that the batch had not begun was taken back and cancelled, it has left the chunk to us.
    if chunk.pointee.isLinked {
      lane._withUnsafeGuaranteedRef { $0.work.giveBack(chunk, pool: &pool) }
    } else {
      WorkList.giveBack(unlinked: chunk, pool: &pool)
    }
  }

  /// Takes what has not begun away, and calls `body` with each run of records of one lane, from the last run to the first. It must move them out.
  func takeRest(_ body: (UnsafeMutablePointer<Work>, Int, Lane) -> Void) {
    var current = cursor.load(ordering: .relaxed)
    while true {
      let (next, end) = Self.split(current)
      guard next < end else { return }
      let attempt = cursor.compareExchange(expected: current, desired: Self.join(next: next, end: next), ordering: .acquiringAndReleasing)
      guard attempt.exchanged else {
        current = attempt.original
        continue
      }
      count = next
      var runEnd = end
      while runEnd > next {
        let lane = lanes[runEnd - 1]
        var runStart = runEnd - 1
        while runStart > next, lanes[runStart - 1].toOpaque() == lane.toOpaque() { runStart -= 1 }
        body(source + runStart, runEnd - runStart, lane.takeUnretainedValue())
        runEnd = runStart
      }
      return
    }
  }

  /// Whether a record has begun that is not over, or is the last of its batch.
  var isRunning: Bool {
    let (next, _) = Self.split(cursor.load(ordering: .acquiring))
    return next > settled
  }

  /// For the monitor: changes whenever a record begins or the batch is filled anew.
  var position: UInt64 {
    let cursor = cursor.load(ordering: .relaxed)
    let (next, _) = Self.split(cursor)
    return next == 0 ? cursor : cursor ^ UInt64(nodesOver[next - 1].load(ordering: .relaxed)) << 8
  }

  // MARK: On the worker's thread

  /// Begins the next record, if there is one: it is the caller's then, moved out.
  @inline(__always)
  func begin() -> (index: Int, work: Work, lane: Unmanaged<Lane>)? {
    var current = cursor.load(ordering: .relaxed)
    while true {
      let (next, end) = Self.split(current)
      guard next < end else { return nil }
      let attempt = cursor.weakCompareExchange(
        expected: current, desired: Self.join(next: next + 1, end: end), ordering: .acquiringAndReleasing)
      if attempt.exchanged { return (next, (source + next).move(), lanes[next]) }
      current = attempt.original
    }
  }

  @inline(__always)
  func setResult(_ result: Result, at index: Int) { results[index] = result }

  /// How many nodes of a graph the record that runs has led to that are over and succeeded.
  @inline(__always)
  func setNodesOver(_ count: UInt32) {
    nodesOver[Self.split(cursor.load(ordering: .relaxed)).next - 1].store(Int(count), ordering: .releasing)
  }

  /// Whether something is left to begin. A hint.
  var hasRest: Bool { hasRecords || !nodeStack.isEmpty }

  /// Whether a record is left to begin. A hint.
  var hasRecords: Bool {
    let (next, end) = Self.split(cursor.load(ordering: .relaxed))
    return next < end
  }
}
