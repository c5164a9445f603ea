import Synchronization

/// What jobs add to their own queue, for their own owner and at their own priority, and the worker that runs them keeps for itself. The
/// worker takes no lock to add it, and none to begin it.
///
/// Work that is kept lies outside of the scheduler: it is not counted, and in no ready list. Whoever takes the queue's lock takes it in
/// first (`Scheduler.takeInNestedWork`), as if it were added just then. So all that is decided under the lock is decided of everything.
///
/// ## Protocol
///
/// - `word`: how many have been added ever (modulo 2^24), how many are in the list, where the items lie, whether the list is open, and
///   whether it is deep. See `Word`.
/// - Only the worker adds: it writes the item, and moves `end` on. Only the worker begins: it moves `head` on, and the item is its own.
///   Both by compare and exchange, and both only while the list is open.
/// - Who has the queue's lock closes the list by one exchange. From then on the worker neither adds nor begins, and the items are those of
///   whoever closed it, who moves them out. The list is empty when it is opened again. Only the worker moves `end`: what it has written
///   there before is added there, if at all.
/// - So no body begins under rules that a setter has changed: it closes all lists (`reclaimBatches`, `closeNestedWork`) before it
///   gives back the lock. So does who holds work of an owner back, behind which the owner's bodies add the rest.
/// - Who looks at a list opens it again at once if it was empty.
/// - One that items have been moved out of is opened again when the lock is left, after the hint says that they are ready. `reopen` is a
///   releasing store after that of the hint. What is added next is younger than those. Whoever has added it sees the hint, and begins none
///   of it before they are taken. So a list that is full costs one hold of the lock for as many jobs as it keeps.
/// - `flow`, `lifetime` and `most` are written under the lock, while the list is closed and its worker in no body. `counted` is guarded by
///   the lock. The memory is allocated by the worker, before the first item is added. It writes `outer` before the exchange that has a
///   group count as outer (releasing), and who closes the list reads it behind the exchange (acquiring).
/// - The flow is that of the batch's last item. It is there while the list is open and something of it is added or begun: the item counts
///   as executing until settled. To settle the batch closes the list. Else only its address, and the lifetime's, may be looked at.
/// - Whoever adds sets `QueueHint.hasNestedWork` after it has moved `end` on, unless it is set. Who has the lock clears it before it looks
///   at `end`. All four are sequentially consistent: what a look misses finds the flag cleared, and sets it.
/// - What is over is taken off only after what was added before has been counted: see `Scheduler.settle`. One may be taken off that was in
///   hand and has not run (`putBackNested`, `countSkippedNested`). Its worker has taken the lock after it was added, and so counted it.
/// - The monitor sees what is kept, so that others run it if the worker blocks, in a body or in a deinit after one. Before the worker adds
///   the first item it asks for a look (`isMonitored`); the monitor looks again as long as a list is open.
///
/// ## When it is open
///
/// It is open from when the worker is given a batch until the batch is settled or reclaimed. Not while items are so long that another
/// worker had better be sent for. Not after some batches in a row whose jobs have added nothing: to open it makes a batch of quick jobs 10
/// % longer. And not where something decides for each item:
/// - more than one body at a time under a limit
/// - a limit for owners, or turns for owners
/// - a barrier that waits, or somebody who waits for an owner
/// - a line of deliveries, an underlying queue, virtual time
///
/// ## In which order
///
/// The worker begins what it has kept when its batch is over, the oldest first. It does so only while no ready work is known to be in the
/// queue (`QueueHint`). Such work is older, or has been added at the same time by somebody else. So what one thread adds for one owner
/// comes in its order, and other work waits for a batch at most.
///
/// A list may be *deep* where nothing promises that order: without a limit, while all that is ready is the same owner's, and not much. Then
/// what a job has added comes next, in the order in which it was added, before what was kept earlier. It is the order of calls, where each
/// job calls those that it adds. A tree of quick jobs is not wide then: a few of each level are pending, in memory that the next ones use
/// again. With the oldest first half of a tree of 262,143 is pending at its widest, 13 MB, and a list is full every 128 jobs.
///
/// - What a deep list keeps may come before what is ready, for as long as a batch's nested work may take: 0.2 ms, as seldom as the clock is
///   looked at. What is left then goes behind all that is ready, the oldest first. Batches are small where families are left unfinished,
///   for each item begins another. So a job with others of its owner before it, at most 512, may wait for 0.2 ms for each of them, divided
///   by the workers. Each stands for its family when the scheduler decides whether another worker is worth it, within bounds.
/// - The first look of anybody else at what is kept ends that until the next batch. Workers whose batch is over leave it there as
///   long as they find enough to do without (`leavesNestedWork`), and set the flag again that they have cleared.
/// - Work of other owners that is added meanwhile is overtaken by one batch at most.
///
/// The items of a deep list lie in groups, one for each job that has added some. The innermost is from `head` to `end`; those around it
/// are in `outer`, and none of them is empty. A job's first addition makes the group of what is left of its own siblings an outer one. When
/// the innermost has been used up it is the next outer one's turn.
///
/// A piece that the worker runs counts as nodes of a graph do: in the progress of the item that was begun last (`WorkBatch`).
final class NestedWork {  // shared by its batch, under the protocol above
  static let capacity = 128

  private let word = Atomic<UInt64>(0)
  private let ledger = ModelLedger()
  private var items: UnsafeMutablePointer<WorkItem>?
  private var outer: UnsafeMutablePointer<Group>?

  /// Whose work is kept.
  @exclusivity(unchecked) private(set) var flow: Borrowed<Flow>?
  /// Its owner's; to be compared.
  @exclusivity(unchecked) private(set) var lifetime: UnsafeMutableRawPointer?
  /// How many items to keep at once.
  @exclusivity(unchecked) private var most = 0
  /// Whether a look of the monitor is due, or has been asked for, since the list was opened. The worker's own while it is open.
  @exclusivity(unchecked) var isMonitored = false
  /// The job that runs was in a deep list, and has added nothing yet. The worker's own while it is open.
  @exclusivity(unchecked) private var beginsGroup = false
  /// It was deep, and there was no place for another item, since it was opened. The worker's own from one opening to the next.
  @exclusivity(unchecked) private(set) var wasFull = false
  /// `added`, as the scheduler has counted it.
  @exclusivity(unchecked) private var counted: UInt64 = 0
  /// It was open when items were moved out, and nothing has been decided since that keeps it closed. Guarded by the lock.
  @exclusivity(unchecked) private(set) var isToReopen = false

  deinit {
    items?.deallocate()
    outer?.deallocate()
  }

  /// From `head` to before `end`.
  private struct Group {
    /// Modulo 256; each is at its place modulo `capacity`.
    var head: UInt8
    var end: UInt8

    var count: Int { Int(end &- head) }
  }

  /// What is decided at once.
  private struct Word {
    var bits: UInt64

    static let open: UInt64 = 1 << 63
    static let deep: UInt64 = 1 << 62
    static let addedMask: UInt64 = 1 << 24 - 1

    init(_ bits: UInt64) { self.bits = bits }

    /// An empty list, closed.
    init(added: UInt64, end: UInt8) { bits = added | UInt64(end) << 24 | UInt64(end) << 32 }

    var isOpen: Bool { bits & Self.open != 0 || Mutation.closedListGoesOn.isOn }
    var isDeep: Bool { bits & Self.deep != 0 }
    /// How many ever.
    var added: UInt64 { bits & Self.addedMask }
    /// How many items are in the list, in all groups.
    var count: Int { Int(bits >> 40 & 0xFF) }
    /// How many groups are around the innermost.
    var depth: Int { Int(bits >> 48 & 0xFF) }

    var innermost: Group {
      get { Group(head: UInt8(truncatingIfNeeded: bits >> 24), end: UInt8(truncatingIfNeeded: bits >> 32)) }
      set { bits = bits & ~(0xFFFF << 24) | UInt64(newValue.head) << 24 | UInt64(newValue.end) << 32 }
    }

    mutating func countAdded() { bits = (bits & ~Self.addedMask | (bits &+ 1) & Self.addedMask) &+ 1 << 40 }
    mutating func countBegun() { bits &-= 1 << 40 }
    mutating func enterGroup() { bits &+= 1 << 48 }
    mutating func leaveGroup() { bits &-= 1 << 48 }
  }

  private static func place(of position: UInt8) -> Int { Int(position) & (capacity - 1) }

  // MARK: On the worker's thread, in a body

  /// Whether work of the owner is kept. A hint.
  func keepsWork(of lifetime: Borrowed<OwnerLifetime>) -> Bool {
    Word(word.load(ordering: .relaxed)).isOpen && self.lifetime == lifetime.address
  }

  /// Where to write an item, which `add` then adds; nil if none can be kept now.
  func makePlace() -> UnsafeMutablePointer<WorkItem>? {
    // Acquiring: whoever has emptied a full list has read what is written anew.
    let word = Word(word.load(ordering: .acquiring))
    guard word.isOpen else { return nil }
    guard word.count < most else { return noPlace(word) }
    guard let items, let outer else { return makeRoom() + Self.place(of: word.innermost.end) }
    // In groups that have been begun are places of no use until the group has been used up.
    let first = word.depth > 0 ? outer[0].head : word.innermost.head
    guard Int(word.innermost.end &- first) < Self.capacity else { return noPlace(word) }
    return items + Self.place(of: word.innermost.end)
  }

  private func noPlace(_ word: Word) -> UnsafeMutablePointer<WorkItem>? {
    if word.isDeep { wasFull = true }
    return nil
  }

  @inline(never)
  private func makeRoom() -> UnsafeMutablePointer<WorkItem> {
    let room = UnsafeMutablePointer<WorkItem>.allocate(capacity: Self.capacity)
    items = room
    outer = .allocate(capacity: Self.capacity)
    return room
  }

  /// - Returns: false if the list has been closed. The item is still where it was written.
  func add() -> Bool {
    var current = Word(word.load(ordering: .relaxed))
    while current.isOpen {
      var new = current
      if beginsGroup, current.innermost.count > 0, let outer {
        outer[current.depth] = current.innermost
        new.enterGroup()
        new.innermost.head = current.innermost.end
      }
      new.innermost.end &+= 1
      new.countAdded()
      let attempt = word.compareExchange(expected: current.bits, desired: new.bits, ordering: .sequentiallyConsistent)
      if attempt.exchanged {
        beginsGroup = false
        ledger.put(Self.place(of: current.innermost.end))
        return true
      }
      current = Word(attempt.original)
    }
    return false
  }

  // MARK: On the worker's thread, between bodies

  /// The item whose turn it is, which is the caller's then.
  func begin() -> WorkItem? {
    var current = Word(word.load(ordering: .relaxed))
    while current.isOpen, let items, let outer, current.count > 0 {
      let position = current.innermost.head
      var new = current
      new.countBegun()
      new.innermost.head = position &+ 1
      if new.innermost.count == 0, new.depth > 0 {
        new.leaveGroup()
        new.innermost = outer[new.depth]
      }
      let attempt = word.compareExchange(expected: current.bits, desired: new.bits, ordering: .acquiringAndReleasing)
      if attempt.exchanged {
        beginsGroup = current.isDeep && !Mutation.deepListIsFlat.isOn
        ledger.take(Self.place(of: position))
        return (items + Self.place(of: position)).move()
      }
      current = Word(attempt.original)
    }
    return nil
  }

  /// A hint.
  var isEmpty: Bool { Word(word.load(ordering: .relaxed)).count == 0 }

  /// Whether its jobs may come before what is ready. A hint.
  var isDeep: Bool { Word(word.load(ordering: .relaxed)).isDeep }

  // MARK: Under the queue's lock

  var isOpen: Bool { word.load(ordering: .relaxed) & Word.open != 0 }

  /// Whether there is something to take in.
  var hasNews: Bool {
    let word = Word(word.load(ordering: .sequentiallyConsistent))
    return word.added != counted || word.count > 0
  }

  /// Opens it. The worker is in no body.
  func open(for flow: Borrowed<Flow>, most: Int, isDeep: Bool, isMonitored: Bool) {
    (self.flow, self.most, self.isMonitored, isToReopen) = (flow, min(most, Self.capacity), isMonitored, false)
    (beginsGroup, wasFull) = (false, false)
    lifetime = flow.with { $0.unretainedOwnerQueue.with { $0.unretainedLifetime?.address } }
    word.store(word.load(ordering: .relaxed) | Word.open | (isDeep ? Word.deep : 0), ordering: .releasing)
  }

  /// Opens it again, after the hint says that what was moved out of it is ready.
  func reopen() {
    isToReopen = false
    word.store(word.load(ordering: .relaxed) | Word.open, ordering: .releasing)
  }

  /// It stays closed.
  func stayClosed() { if !Mutation.closedListIsReopened.isOn { isToReopen = false } }

  /// Empties it. It is not deep from then on.
  /// - Parameters:
  ///   - opensAgain: if it was open: at once if it was empty, too, else it is to be opened again.
  ///   - count: gets how many have been added since the last time, also those that have been begun. Called first.
  ///   - take: must move the items out, oldest first. Called once or twice for each group.
  func takeIn(opensAgain: Bool, count: (Int, Flow) -> Void, _ take: (UnsafeMutablePointer<WorkItem>, Int, Flow) -> Void) {
    let former = Word(word.bitwiseAnd(~Word.open, ordering: .sequentiallyConsistent).oldValue)
    let added = Int((former.added &- counted) & Word.addedMask)
    // Only then is the memory known to be there.
    if added > 0 || former.count > 0, let items, let outer, let flow = flow?.object {
      counted = former.added
      if added > 0 { count(added, flow) }
      for index in (Mutation.outerGroupsAreForgotten.isOn ? former.depth : 0)...former.depth {
        moveOut(index < former.depth ? outer[index] : former.innermost, of: items, flow, take)
      }
    }
    let wasOpen = former.bits & Word.open != 0
    let opensAtOnce = former.count == 0 || Mutation.takenListGoesOn.isOn
    isToReopen = opensAgain && (isToReopen || wasOpen && !opensAtOnce)
    let emptied = Word(added: former.added, end: former.innermost.end).bits
    word.store(opensAgain && wasOpen && opensAtOnce ? emptied | Word.open : emptied, ordering: .releasing)
  }

  private func moveOut(
    _ group: Group, of items: UnsafeMutablePointer<WorkItem>, _ flow: Flow, _ take: (UnsafeMutablePointer<WorkItem>, Int, Flow) -> Void
  ) {
    let (first, count) = (Self.place(of: group.head), group.count)
    guard count > 0 else { return }
    for offset in 0..<count { ledger.take((first + offset) % Self.capacity) }
    let beforeEnd = min(count, Self.capacity - first)
    take(items + first, beforeEnd, flow)
    if count > beforeEnd { take(items, count - beforeEnd, flow) }
  }
}
