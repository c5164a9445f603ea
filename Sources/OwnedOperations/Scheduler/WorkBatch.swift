import Synchronization

/// What a worker has taken from the ready lists and runs without the queue's lock, and others can take away from it again.
///
/// ## Protocol
///
/// - The worker, or for a handoff whoever sends for it, fills the batch under the queue's lock, when it is empty, and publishes it by
///   storing `cursor` = (0, count).
/// - A record is begun by moving the cursor's low half past it (compare and exchange). Whoever wants the rest back, to give it to other
///   workers or because its owner has ended, moves the high half down to the low half, under the queue's lock. One of the two wins each
///   record.
/// - An entry's `progress` is written by the worker as the record goes on, in one store each (releasing), so that who counts sees either
///   the one or the other: whether the work has begun that the record stands for, and how many nodes of a graph are over that it led to. A
///   record that is found to be skipped never has begun. (Operations are counted elsewhere.)
/// - The records lie in the batch's own memory; or, if all are of one lane and side by side there, they stay in the lane's chunk, which
///   the batch borrows until the worker settles (`source`, `borrowed`). Copying them under the lock would have the lock wait for each cache
///   line that whoever added them has written.
/// - An entry's `result` is written by the worker when the record is over, before it moves the cursor on (releasing). So who loads the
///   cursor (acquiring) under the lock may read the results before the last one begun, and `settle` counts them.
/// - The entries' lanes, `source`, `borrowed`, `count`, `level` and `settled` change under the lock only. Records that are not begun are
///   moved out under the lock only.
final class WorkBatch: Sendable {
  static let capacity = 128
  /// Fewer records than this are copied, so that those of other lanes can join them.
  static let leastBorrowed = 8

  enum Result: UInt8 {
    case succeeded, failed
    /// Before it began.
    case cancelled
    /// Because its owner had ended.
    case skipped
    /// Operations tell the queue themselves when they finish.
    case countsItself
  }

  /// What there is to know of a record. Side by side, because a batch is often of one record, for which each cache line counts.
  private struct Entry: ~Copyable {
    let lane: Borrowed<Lane>
    /// Of the record's owner, to be compared: lane and slot may go with what others take away.
    let lifetime: UnsafeMutableRawPointer?
    /// Of its ticket, by which it goes back.
    let age: UInt64
    /// Bit 0: a job, or a node, has begun. Bit 1: the record is over, `result` says how. The rest: how many graph nodes it has led to that
    /// are over and succeeded.
    let progress = Atomic<Int>(0)
    var result = Result.skipped
  }

  nonisolated(unsafe) private let records = UnsafeMutablePointer<Work>.allocate(capacity: capacity)
  nonisolated(unsafe) private let entries = UnsafeMutablePointer<Entry>.allocate(capacity: capacity)
  /// What a node of a graph has led to and the worker has not begun.
  let nodeStack = NodeStack()
  private let cursor = Atomic<UInt64>(0)

  // Guarded by the queue's lock, which makes their accesses exclusive.
  /// Where the records are.
  @exclusivity(unchecked) nonisolated(unsafe) private var source: UnsafeMutablePointer<Work>
  @exclusivity(unchecked) nonisolated(unsafe) private var borrowed: (chunk: WorkList.ChunkPointer, lane: Borrowed<Lane>)?
  @exclusivity(unchecked) nonisolated(unsafe) private(set) var count = 0
  @exclusivity(unchecked) nonisolated(unsafe) private var settled = 0
  /// Of the first record that is not settled.
  @exclusivity(unchecked) nonisolated(unsafe) private var settledNodes = 0
  @exclusivity(unchecked) nonisolated(unsafe) private(set) var level = 0
  /// Whether, when `settle` was called last, the work of the record that was not over had begun and was not counted: a job or a node of a
  /// graph, not an operation.
  @exclusivity(unchecked) nonisolated(unsafe) private(set) var isRunning = false

  init() {
    source = records
  }

  deinit {
    // A worker only goes with an empty batch.
    records.deallocate()
    entries.deallocate()
  }

  private static func split(_ cursor: UInt64) -> (next: Int, end: Int) { (Int(cursor & 0xFFFF_FFFF), Int(cursor >> 32)) }
  private static func join(next: Int, end: Int) -> UInt64 { UInt64(next) | UInt64(end) << 32 }

  // MARK: Under the queue's lock

  /// Borrows up to `limit` records of the lane. The batch must be empty, and is full then.
  func borrow(from lane: Lane, limit: Int, age: UInt64, pool: inout ChunkPool) -> Int {
    let run = lane.work.borrowFirst(limit, pool: &pool)
    source = run.records
    borrowed = (run.chunk, Borrowed(lane))
    addEntries(run.count, of: Borrowed(lane), age: age)
    return run.count
  }

  /// Moves up to `limit` records of the lane to the end of the batch, which has not been published.
  func fill(from lane: Lane, limit: Int, age: UInt64, pool: inout ChunkPool) -> Int {
    let moved = lane.work.moveFirst(limit, to: records + count, pool: &pool)
    addEntries(moved, of: Borrowed(lane), age: age)
    return moved
  }

  /// Whose record is next, and which operation, if it is one's.
  var next: (lifetime: OwnerLifetime?, operation: OwnedOperation?) {
    let (next, end) = Self.split(cursor.load(ordering: .acquiring))
    guard next < end else { return (nil, nil) }
    let lifetime = entries[next].lane.with { $0.slot.lifetime }
    if case .operation(let operation) = source[next] { return (lifetime, operation) }
    return (lifetime, nil)
  }

  /// The only record. The batch must be empty.
  @inline(__always)
  func fill(_ work: consuming Work, of lane: Borrowed<Lane>, age: UInt64) {
    records.initialize(to: work)
    addEntries(1, of: lane, age: age)
  }

  @inline(__always)
  private func addEntries(_ added: Int, of lane: Borrowed<Lane>, age: UInt64) {
    let lifetime = lane.with { $0.unretainedSlot.with { $0.unretainedLifetime?.address } }
    for index in count..<count + added { (entries + index).initialize(to: Entry(lane: lane, lifetime: lifetime, age: age)) }
    count += added
  }

  func publish(level: Int) {
    self.level = level
    settled = 0
    settledNodes = 0
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

  /// Calls `body` for each run of records of one lane that are over and have not been counted.
  /// - Parameter includingCurrent: whether the last record begun is over. The worker itself knows; others ask `isCurrentOver`. If not,
  ///   `body` gets its nodes only.
  func settle(includingCurrent: Bool, _ body: (Lane, Tally) -> Void) {
    let (next, _) = Self.split(cursor.load(ordering: .acquiring))
    let over = includingCurrent ? next : next - 1
    while settled < over {
      let lane = entries[settled].lane
      var tally = Tally()
      repeat {
        tally.nodes += entries[settled].progress.load(ordering: .acquiring) >> Self.nodesShift - settledNodes
        tally.add(entries[settled].result)
        settled += 1
        settledNodes = 0
      } while settled < over && entries[settled].lane.address == lane.address
      lane.with { body($0, tally) }
    }
    isRunning = false
    if settled < next {
      let progress = entries[settled].progress.load(ordering: .acquiring)
      let nodes = progress >> Self.nodesShift
      isRunning = progress & Self.running != 0
      if nodes > settledNodes { entries[settled].lane.with { body($0, Tally(nodes: nodes - settledNodes)) } }
      settledNodes = nodes
    }
  }

  /// All that was begun is settled, and nothing is left to begin.
  func empty() {
    count = 0
    settled = 0
    cursor.store(0, ordering: .relaxed)
  }

  /// The worker has begun all that it will begin. Before `settle` counts the last record: the lane may go then.
  func giveBackChunk(pool: inout ChunkPool) {
    guard let (chunk, lane) = borrowed else { return }
    borrowed = nil
    source = records
    // If the lane has gone, because all that the batch had not begun was taken back and cancelled, it has left the chunk to us.
    if chunk.pointee.isLinked {
      lane.with { $0.work.giveBack(chunk, pool: &pool) }
    } else {
      WorkList.giveBack(unlinked: chunk, pool: &pool)
    }
  }

  /// Takes what has not begun away, and calls `body` with each run of records of one lane and age, from the last run to the first. It must
  /// move them out.
  func takeRest(_ body: (UnsafeMutablePointer<Work>, Int, Lane, _ age: UInt64) -> Void) {
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
        let (lane, age) = (entries[runEnd - 1].lane, entries[runEnd - 1].age)
        var runStart = runEnd - 1
        while runStart > next, entries[runStart - 1].lane.address == lane.address, entries[runStart - 1].age == age { runStart -= 1 }
        body(source + runStart, runEnd - runStart, lane.object, age)
        runEnd = runStart
      }
      return
    }
  }

  /// For the monitor: changes whenever a record begins or the batch is filled anew.
  var position: UInt64 {
    let cursor = cursor.load(ordering: .relaxed)
    let (next, _) = Self.split(cursor)
    return next == 0 ? cursor : cursor ^ UInt64(entries[next - 1].progress.load(ordering: .relaxed)) << 8
  }

  // MARK: On the worker's thread

  /// Begins the next record, if there is one: it is the caller's then, moved out.
  @inline(__always)
  func begin() -> (index: Int, work: Work, lane: Borrowed<Lane>)? {
    var current = cursor.load(ordering: .relaxed)
    while true {
      let (next, end) = Self.split(current)
      guard next < end else { return nil }
      if Mutation.beginsWithoutExchange.isOn {
        cursor.store(Self.join(next: next + 1, end: end), ordering: .releasing)
        return (next, (source + next).move(), entries[next].lane)
      }
      let attempt = cursor.weakCompareExchange(
        expected: current, desired: Self.join(next: next + 1, end: end), ordering: .acquiringAndReleasing)
      if attempt.exchanged { return (next, (source + next).move(), entries[next].lane) }
      current = attempt.original
    }
  }

  /// The record counts itself, whoever asks from now on.
  @inline(__always)
  func setCountsItself(at index: Int) { entries[index].result = .countsItself }

  /// The lifetime whose record is next, if there is one; to be compared, it may go. For the worker; others may take the record away.
  @inline(__always)
  var nextLifetime: UnsafeMutableRawPointer? {
    let (next, end) = Self.split(cursor.load(ordering: .relaxed))
    return next < end ? entries[next].lifetime : nil
  }

  /// The record is over; what it captured may still have to go.
  @inline(__always)
  func setOver(_ result: Result, at index: Int) {
    // Of a record that counts itself others may read it by now: it was written when the record began.
    if result != .countsItself { entries[index].result = result }
    entries[index].progress.store(entries[index].progress.load(ordering: .relaxed) | Self.over, ordering: .releasing)
  }

  /// Puts the last record begun back to those that have not, for a worker that can't run it now. Under the queue's lock, after the rest has
  /// been taken back.
  func unbegin(_ work: consuming Work) -> (records: UnsafeMutablePointer<Work>, lane: Borrowed<Lane>, age: UInt64) {
    let last = Self.split(cursor.load(ordering: .relaxed)).next - 1
    (source + last).initialize(to: work)
    count = last
    cursor.store(Self.join(next: last, end: last), ordering: .releasing)
    return (source + last, entries[last].lane, entries[last].age)
  }

  /// Whether the last record begun is over. Under the queue's lock, which keeps the worker from filling the batch anew.
  var isCurrentOver: Bool {
    let next = Self.split(cursor.load(ordering: .acquiring)).next
    return next > 0 && entries[next - 1].progress.load(ordering: .acquiring) & Self.over != 0
  }

  private static let running = 1
  private static let over = 2
  private static let nodesShift = 2

  /// The job of the record that runs begins now, or another node of a graph.
  /// - Parameter nodesOver: how many nodes the record has led to that are over and succeeded.
  @inline(__always)
  func setBegun(nodesOver: UInt32 = 0) { setProgress(Int(nodesOver) << Self.nodesShift | Self.running) }

  /// No node runs.
  @inline(__always)
  func setNodesOver(_ count: UInt32) { setProgress(Int(count) << Self.nodesShift) }

  @inline(__always)
  private func setProgress(_ new: Int) {
    entries[Self.split(cursor.load(ordering: .relaxed)).next - 1].progress.store(new, ordering: .releasing)
  }

  /// Whether the worker has begun a record since the batch was filled. A hint, but under the lock: what has been taken back never will be.
  var hasBegun: Bool { Self.split(cursor.load(ordering: .acquiring)).next > 0 }

  /// Of the record begun last, if that is of a line and has not been counted. Under the lock.
  var currentLane: Lane? {
    let next = Self.split(cursor.load(ordering: .relaxed)).next
    guard next > settled else { return nil }
    return entries[next - 1].lane.with { $0.line == nil ? nil : $0 }
  }

  /// Whether something is left to begin. A hint.
  var hasRest: Bool { hasRecords || !nodeStack.isEmpty }

  /// Whether a record is left to begin. A hint.
  var hasRecords: Bool {
    let (next, end) = Self.split(cursor.load(ordering: .relaxed))
    return next < end
  }
}
