import Synchronization

/// What a worker has taken from the ready lists and runs without the queue's lock, and others can take away from it again.
///
/// ## Protocol
///
/// - The batch is filled under the queue's lock, when it is empty, and published by storing `cursor` = (0, count). The worker does that, or
///   for a handoff whoever sends for it.
/// - A work item is begun by moving the cursor's low half past it (compare and exchange). Whoever wants the rest back, for other workers or
///   because its owner has ended, moves the high half down to the low half. That is done under the queue's lock. One of the two wins each
///   item.
/// - An entry's `progress` is one word. It says whether the item's work has begun, and how many graph nodes, or nested jobs, that it led to
///   are over. The worker writes it as the item goes on, in one store each (releasing). So who counts never sees a part of a change. A work
///   item that is found to be skipped never has begun. (Operations are counted elsewhere.)
/// - An item that is over may go on with nested work. The worker says that it isn't over any more before it takes a nested job in hand. So
///   whoever has closed the list (`NestedWork`) and then finds it over knows that nothing of the worker's is under way.
/// - The items lie in the batch's own memory, to which they are moved under the lock. Only the worker has it replaced, by more, under the
///   lock and before the batch is published.
/// - An entry's `result` is written by the worker when the item is over, before it moves the cursor on (releasing). So who loads the
///   cursor (acquiring) under the lock may read the results before the last one begun, and `settle` counts them.
/// - The entries' flows, `count`, `level` and `settled` change under the lock only. Work items that are not begun are
///   moved out under the lock only.
final class WorkBatch {
  static let capacity = 128

  enum Result: UInt8 {
    case succeeded, failed
    /// Before it began.
    case cancelled
    /// Because its owner had ended.
    case skipped
    /// Operations tell the queue themselves when they finish.
    case countsItself
  }

  /// What there is to know of a work item. Side by side, because a batch is often of one item, for which each cache line counts.
  private struct Entry: ~Copyable {
    let flow: Borrowed<Flow>
    // Once more, because who adds work writes to the cache lines of the flow and the owner queue all the time.
    let ownerQueue: Borrowed<OwnerQueue>
    /// Good for whoever has begun the item; for others only to be compared, it may go with what is taken away.
    let lifetime: Borrowed<OwnerLifetime>?
    /// The age of its ticket, by which it goes back.
    let age: UInt64
    /// Bit 0: a job, or a node, has begun. Bit 1: the item is over, `result` says how. Bit 2: it is a job, whose `result` counts, and it
    /// goes on with nested work. The rest: how many graph nodes, or nested jobs, it has led to that are over and succeeded.
    let progress = Atomic<Int>(0)
    var result = Result.skipped
    let isOfLine: Bool

    /// What is counted.
    var run: SettledRun { SettledRun(flow: flow, ownerQueue: ownerQueue, isOfLine: isOfLine) }
  }

  /// What a node of a graph has led to and the worker has not begun.
  let nodeStack = NodeStack()
  let nested = NestedWork()
  private let ledger = ModelLedger()
  private let cursor = Atomic<UInt64>(0)

  // Guarded by the queue's lock, which makes their accesses exclusive.
  // Room for one at first: the workers of a serial queue never need more, and 128 take 9 kB.
  @exclusivity(unchecked) private var items = RawStorage<WorkItem>(capacity: 1)
  @exclusivity(unchecked) private var entries = RawStorage<Entry>(capacity: 1)
  @exclusivity(unchecked) private var hasRoomForOne = true
  @exclusivity(unchecked) private(set) var count = 0
  @exclusivity(unchecked) private var settled = 0
  /// How many nodes of the first item that is not settled are counted.
  @exclusivity(unchecked) private var settledNodes = 0
  /// Whether the result of that item is counted, if it goes on with nested work.
  @exclusivity(unchecked) private var isResultSettled = false
  @exclusivity(unchecked) private(set) var level = 0
  /// Whether, when `settle` was called last, the work of the item that was not over had begun and was not counted. Such work is a job or a
  /// node of a graph, not an operation.
  @exclusivity(unchecked) private(set) var isRunning = false

  private static func split(_ cursor: UInt64) -> (next: Int, end: Int) { (Int(cursor & 0xFFFF_FFFF), Int(cursor >> 32)) }
  private static func join(next: Int, end: Int) -> UInt64 { UInt64(next) | UInt64(end) << 32 }

  // MARK: Under the queue's lock

  /// Moves up to `limit` items of the flow to the end of the batch, which has not been published.
  func fill(from flow: Flow, limit: Int, age: UInt64, pool: inout ChunkPool) -> Int {
    if hasRoomForOne, count + limit > 1 { makeRoom() }
    let moved = flow.work.moveFirst(limit, to: items.start + count, pool: &pool)
    addEntries(moved, of: Borrowed(flow), age: age)
    return moved
  }

  /// By the worker, who alone looks into the batch without the lock.
  @inline(never)
  private func makeRoom() {
    hasRoomForOne = false
    let moreItems = RawStorage<WorkItem>(capacity: Self.capacity)
    let moreEntries = RawStorage<Entry>(capacity: Self.capacity)
    moreItems.start.moveInitialize(from: items.start, count: count)
    moreEntries.start.moveInitialize(from: entries.start, count: count)
    items = moreItems
    entries = moreEntries
  }

  /// Whose item is next, and of which record, if it is one's.
  var next: (lifetime: OwnerLifetime?, record: (any WorkRecord)?) {
    let (next, end) = Self.split(cursor.load(ordering: .acquiring))
    guard next < end else { return (nil, nil) }
    let lifetime = entries[next].flow.with { $0.ownerQueue.lifetime }
    return (lifetime, items[next].piece?.record)
  }

  /// The only item. The batch must be empty.
  func fill(_ work: consuming WorkItem, of flow: Borrowed<Flow>, age: UInt64) {
    items.start.initialize(to: work)
    addEntries(1, of: flow, age: age)
  }

  @inline(__always)  // for each job
  private func addEntries(_ added: Int, of flow: Borrowed<Flow>, age: UInt64) {
    let (ownerQueue, isOfLine) = flow.with { ($0.unretainedOwnerQueue, $0.line != nil) }
    let lifetime = ownerQueue.with { $0.unretainedLifetime }
    Prefetch.toRead(lifetime?.address)  // which is asked when the item begins
    for index in count..<count + added {
      (entries.start + index).initialize(
        to: Entry(flow: flow, ownerQueue: ownerQueue, lifetime: lifetime, age: age, isOfLine: isOfLine))
      ledger.put(index)
    }
    count += added
  }

  func publish(level: Int) {
    self.level = level
    settled = 0
    settledNodes = 0
    isResultSettled = false
    cursor.store(Self.join(next: 0, end: count), ordering: .releasing)
  }

  /// How items of one flow that followed each other have ended.
  struct Tally {
    var items = 0
    var succeeded = 0
    var failed = 0
    var cancelled = 0
    var skipped = 0
    /// Graph nodes that are over and succeeded.
    var nodes = 0

    /// Those that the queue counts; the rest count themselves.
    var counted: Int { succeeded + failed + cancelled + skipped }

    fileprivate mutating func add(_ result: Result) {
      switch result {
      case .succeeded: succeeded += 1
      case .failed: failed += 1
      case .cancelled: cancelled += 1
      case .skipped: skipped += 1
      case .countsItself: break
      }
    }
  }

  /// Items of one flow that followed each other.
  struct SettledRun {
    fileprivate let flow: Borrowed<Flow>
    let ownerQueue: Borrowed<OwnerQueue>
    fileprivate let isOfLine: Bool

    /// The flow, if it is a line's.
    var flowOfLine: Flow? { isOfLine ? flow.object : nil }
  }

  /// Calls `body` for each run of items of one flow that are over and have not been counted.
  /// - Parameter includingCurrent: whether the last item begun is over. The worker itself knows; others ask `isCurrentOver`. If not,
  ///   `body` gets its nodes only.
  func settle(includingCurrent: Bool, _ body: (SettledRun, Tally) -> Void) {
    let (next, _) = Self.split(cursor.load(ordering: .acquiring))
    let over = includingCurrent ? next : next - 1
    while settled < over {
      let run = entries[settled].run
      var tally = Tally()
      repeat {
        tally.nodes += entries[settled].progress.load(ordering: .acquiring) >> Self.nodesShift - settledNodes
        tally.items += 1
        if !isResultSettled { tally.add(entries[settled].result) }
        settled += 1
        settledNodes = 0
        isResultSettled = false
      } while settled < over && entries[settled].flow.address == run.flow.address
      body(run, tally)
    }
    isRunning = false
    if settled < next {
      let progress = entries[settled].progress.load(ordering: .acquiring)
      let nodes = progress >> Self.nodesShift
      isRunning = progress & Self.running != 0
      var tally = Tally(nodes: nodes - settledNodes)
      if progress & Self.leads != 0, !isResultSettled {
        isResultSettled = true
        tally.add(entries[settled].result)
      }
      if tally.nodes > 0 || tally.counted > 0 { body(entries[settled].run, tally) }
      settledNodes = nodes
    }
  }

  /// All that was begun is settled, and nothing is left to begin.
  func empty() {
    count = 0
    settled = 0
    cursor.store(0, ordering: .relaxed)
  }

  /// Takes away what has not begun. Calls `body` with each run of items of one flow and age, from the last run to the first. It must move
  /// them out.
  func takeRest(_ body: (UnsafeMutablePointer<WorkItem>, Int, Flow, _ age: UInt64) -> Void) {
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
      for index in next..<end { ledger.take(index) }
      var runEnd = end
      while runEnd > next {
        let (flow, age) = (entries[runEnd - 1].flow, entries[runEnd - 1].age)
        var runStart = runEnd - 1
        while runStart > next, entries[runStart - 1].flow.address == flow.address, entries[runStart - 1].age == age { runStart -= 1 }
        body(items.start + runStart, runEnd - runStart, flow.object, age)
        runEnd = runStart
      }
      return
    }
  }

  /// For the monitor: changes whenever a work item begins or the batch is filled anew.
  var position: UInt64 {
    let cursor = cursor.load(ordering: .relaxed)
    let (next, _) = Self.split(cursor)
    return next == 0 ? cursor : cursor ^ UInt64(entries[next - 1].progress.load(ordering: .relaxed)) << 8
  }

  // MARK: On the worker's thread

  /// Begins the next item, if there is one: it is the caller's then, moved out.
  func begin() -> (index: Int, work: WorkItem, ownerQueue: Borrowed<OwnerQueue>, lifetime: Borrowed<OwnerLifetime>?)? {
    var current = cursor.load(ordering: .relaxed)
    while true {
      let (next, end) = Self.split(current)
      guard next < end else { return nil }
      if Mutation.beginsWithoutExchange.isOn {
        cursor.store(Self.join(next: next + 1, end: end), ordering: .releasing)
        ledger.take(next)
        return (next, (items.start + next).move(), entries[next].ownerQueue, entries[next].lifetime)
      }
      let attempt = cursor.weakCompareExchange(
        expected: current, desired: Self.join(next: next + 1, end: end), ordering: .acquiringAndReleasing)
      if attempt.exchanged {
        ledger.take(next)
        return (next, (items.start + next).move(), entries[next].ownerQueue, entries[next].lifetime)
      }
      current = attempt.original
    }
  }

  /// The item counts itself, whoever asks from now on.
  func setCountsItself(at index: Int) { entries[index].result = .countsItself }

  /// The lifetime whose item is next, if there is one; to be compared, it may go. For the worker; others may take the item away.
  var nextLifetime: UnsafeMutableRawPointer? {
    let (next, end) = Self.split(cursor.load(ordering: .relaxed))
    return next < end ? entries[next].lifetime?.address : nil
  }

  /// The item is over; what it captured may still have to go.
  @inline(__always)  // for each job
  func setOver(_ result: Result, at index: Int) {
    // Others may by now read the result of a work item that counts itself: it was written when the item began.
    if result != .countsItself { entries[index].result = result }
    entries[index].progress.store(entries[index].progress.load(ordering: .relaxed) | Self.over, ordering: .releasing)
  }

  /// Puts the last item begun back to those that have not, for a worker that can't run it now. Under the queue's lock, after the rest has
  /// been reclaimed.
  func unbegin(_ work: consuming WorkItem) -> (items: UnsafeMutablePointer<WorkItem>, flow: Borrowed<Flow>, age: UInt64) {
    let last = Self.split(cursor.load(ordering: .relaxed)).next - 1
    (items.start + last).initialize(to: work)
    count = last
    cursor.store(Self.join(next: last, end: last), ordering: .releasing)
    return (items.start + last, entries[last].flow, entries[last].age)
  }

  /// Whether the last item begun is over. Under the queue's lock, which keeps the worker from filling the batch anew.
  var isCurrentOver: Bool {
    let next = Self.split(cursor.load(ordering: .acquiring)).next
    return next > 0 && entries[next - 1].progress.load(ordering: .acquiring) & Self.over != 0
  }

  private static let running = 1
  private static let over = 2
  private static let leads = 4
  private static let nodesShift = 3

  /// The job of the item that runs begins now, or another node of a graph.
  /// - Parameter nodesOver: how many nodes the item has led to that are over and succeeded.
  func setBegun(nodesOver: UInt32 = 0) { setProgress(Int(nodesOver) << Self.nodesShift | Self.running) }

  /// No node runs.
  func setNodesOver(_ count: UInt32) { setProgress(Int(count) << Self.nodesShift) }

  private func setProgress(_ new: Int) { entries[lastBegun].progress.store(new, ordering: .releasing) }

  private var lastBegun: Int { Self.split(cursor.load(ordering: .relaxed)).next - 1 }

  // MARK: Nested work, on the worker's thread

  /// Whether the last item begun may go on with nested work of the flow.
  func mayGoOn(with flow: Borrowed<Flow>) -> Bool {
    entries[lastBegun].flow.address == flow.address && entries[lastBegun].result == .succeeded
  }

  /// The last item begun is not over: a nested job is about to be taken in hand.
  /// - Parameter over: how many nested jobs are over.
  func goOn(nestedOver over: Int) { setProgress(over << Self.nodesShift | Self.leads) }

  /// A nested job begins.
  func setNestedBegun(over: Int) { setProgress(over << Self.nodesShift | Self.leads | Self.running) }

  /// A nested job is over, and another has not been taken in hand. What it captured may still have to go.
  func setNestedOver(_ over: Int) { setProgress(over << Self.nodesShift | Self.leads | Self.over) }

  /// The flow of the item that was put in last.
  var lastFlow: Borrowed<Flow>? { count > 0 ? entries[count - 1].flow : nil }

  /// Whether the worker has begun a work item since the batch was filled. A hint, but under the lock: what has been reclaimed never will
  /// be.
  var hasBegun: Bool { Self.split(cursor.load(ordering: .acquiring)).next > 0 }

  /// The flow of the item begun last, if that item is of a line and has not been counted. Under the lock.
  var currentFlow: Flow? {
    let next = Self.split(cursor.load(ordering: .relaxed)).next
    guard next > settled else { return nil }
    return entries[next - 1].flow.with { $0.line == nil ? nil : $0 }
  }

  /// Whether something is left to begin. A hint.
  var hasRest: Bool { hasItems || !nodeStack.isEmpty }

  /// Whether a work item is left to begin. A hint.
  var hasItems: Bool {
    let (next, end) = Self.split(cursor.load(ordering: .relaxed))
    return next < end
  }
}
