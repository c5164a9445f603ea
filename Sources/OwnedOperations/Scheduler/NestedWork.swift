import Synchronization

/// What jobs add to their own queue, for their own owner and at their own priority, and the worker that runs them keeps for itself. The
/// worker takes no lock to add it, and none to begin it.
///
/// Work that is kept lies outside of the scheduler: it is not counted, and in no ready list. Whoever takes the queue's lock takes it in
/// first (`Scheduler.takeInNestedWork`), as if it were added just then. So all that is decided under the lock is decided of everything.
///
/// ## Protocol
///
/// - `word`: two counts that only grow, modulo 2^30. `next` is in bits 0 to 29, `end` in bits 30 to 59. Bit 63 says that the list is open.
///   The items are those from `next` to `end`, each at its count modulo `capacity`.
/// - Only the worker adds: it writes the item, and moves `end` on. Only the worker begins: it moves `next` on, and the item is its own.
///   Both by compare and exchange, and both only while the list is open.
/// - Who has the queue's lock closes the list by one exchange. From then on the worker neither adds nor begins, and the items are those of
///   whoever closed it, who moves them out. The list is empty when it is opened again.
/// - So no body begins under rules that a setter has changed: it closes all lists (`reclaimBatches`, `closeNestedWork`) before it
///   gives back the lock. So does who holds work of an owner back, behind which the owner's bodies add the rest.
/// - Who looks at a list opens it again at once if it was empty.
/// - One that items have been moved out of is opened again when the lock is left, after the hint says that they are ready. `reopen` is a
///   releasing store after that of the hint. What is added next is younger than those. Whoever has added it sees the hint, and begins none
///   of it before they are taken. So a list that is full costs one hold of the lock for as many jobs as it keeps.
/// - `flow`, `lifetime` and `most` are written under the lock, while the list is closed and its worker in no body. `counted` is guarded by
///   the lock. The memory is allocated by the worker, before the first item is added.
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
/// The worker begins what it has kept when its batch is over, the oldest first. It does so only while no ready work is known to be in the
/// queue (`QueueHint`). Such work is older, or has been added at the same time by somebody else. So what one thread adds for one owner
/// comes in its order, and other work waits for a batch at most.
///
/// A piece that the worker runs counts as nodes of a graph do: in the progress of the item that was begun last (`WorkBatch`).
final class NestedWork {  // shared by its batch, under the protocol above
  static let capacity = 128

  private static let open: UInt64 = 1 << 63
  private static let endShift: UInt64 = 30
  private static let countMask: UInt64 = 1 << 30 - 1

  private let word = Atomic<UInt64>(0)
  private let ledger = ModelLedger()
  private var items: UnsafeMutablePointer<WorkItem>?

  /// Whose work is kept.
  @exclusivity(unchecked) private(set) var flow: Borrowed<Flow>?
  /// Its owner's; to be compared.
  @exclusivity(unchecked) private(set) var lifetime: UnsafeMutableRawPointer?
  /// How many items to keep at once.
  @exclusivity(unchecked) private var most = 0
  /// Whether a look of the monitor is due, or has been asked for, since the list was opened. The worker's own while it is open.
  @exclusivity(unchecked) var isMonitored = false
  /// `end`, as the scheduler has counted it.
  @exclusivity(unchecked) private var counted: UInt64 = 0
  /// It was open when items were moved out, and nothing has been decided since that keeps it closed. Guarded by the lock.
  @exclusivity(unchecked) private(set) var isToReopen = false

  deinit { items?.deallocate() }

  private static func next(_ word: UInt64) -> UInt64 { word & countMask }
  private static func end(_ word: UInt64) -> UInt64 { word >> endShift & countMask }
  private static func count(_ word: UInt64) -> Int { Int((end(word) &- next(word)) & countMask) }
  private static func place(of count: UInt64) -> Int { Int(count) & (capacity - 1) }
  private static func isOpen(_ word: UInt64) -> Bool { word & open != 0 || Mutation.closedListGoesOn.isOn }

  // MARK: On the worker's thread, in a body

  /// Whether work of the owner is kept. A hint.
  func keepsWork(of lifetime: Borrowed<OwnerLifetime>) -> Bool {
    Self.isOpen(word.load(ordering: .relaxed)) && self.lifetime == lifetime.address
  }

  /// Where to write an item, which `add` then adds; nil if none can be kept now.
  func makePlace() -> UnsafeMutablePointer<WorkItem>? {
    // Acquiring: whoever has emptied a full list has read what is written anew.
    let word = word.load(ordering: .acquiring)
    guard Self.isOpen(word), Self.count(word) < most else { return nil }
    let start: UnsafeMutablePointer<WorkItem>
    if let items {
      start = items
    } else {
      start = .allocate(capacity: Self.capacity)
      items = start
    }
    return start + Self.place(of: Self.end(word))
  }

  /// - Returns: false if the list has been closed. The item is still where it was written.
  func add() -> Bool {
    var current = word.load(ordering: .relaxed)
    while Self.isOpen(current) {
      // The end is the highest count: what it carries over when it begins anew is cut off.
      let end = (Self.end(current) &+ 1) & Self.countMask
      let attempt = word.compareExchange(
        expected: current, desired: current & Self.open | Self.next(current) | end << Self.endShift, ordering: .sequentiallyConsistent)
      if attempt.exchanged {
        ledger.put(Self.place(of: Self.end(current)))
        return true
      }
      current = attempt.original
    }
    return false
  }

  // MARK: On the worker's thread, between bodies

  /// The oldest item, which is the caller's then.
  func begin() -> WorkItem? {
    var current = word.load(ordering: .relaxed)
    while Self.isOpen(current), let items, Self.count(current) > 0 {
      let next = Self.next(current)
      let attempt = word.compareExchange(
        expected: current, desired: current & ~Self.countMask | (next &+ 1) & Self.countMask, ordering: .acquiringAndReleasing)
      if attempt.exchanged {
        ledger.take(Self.place(of: next))
        return (items + Self.place(of: next)).move()
      }
      current = attempt.original
    }
    return nil
  }

  /// A hint.
  var isEmpty: Bool { Self.count(word.load(ordering: .relaxed)) == 0 }

  // MARK: Under the queue's lock

  var isOpen: Bool { word.load(ordering: .relaxed) & Self.open != 0 }

  /// Whether there is something to take in.
  var hasNews: Bool {
    let word = word.load(ordering: .sequentiallyConsistent)
    return Self.end(word) != counted || Self.count(word) > 0
  }

  /// Opens it. The worker is in no body.
  func open(for flow: Borrowed<Flow>, most: Int, isMonitored: Bool) {
    (self.flow, self.most, self.isMonitored, isToReopen) = (flow, min(most, Self.capacity), isMonitored, false)
    lifetime = flow.with { $0.unretainedOwnerQueue.with { $0.unretainedLifetime?.address } }
    word.store(word.load(ordering: .relaxed) | Self.open, ordering: .releasing)
  }

  /// Opens it again, after the hint says that what was moved out of it is ready.
  func reopen() {
    isToReopen = false
    word.store(word.load(ordering: .relaxed) | Self.open, ordering: .releasing)
  }

  /// It stays closed.
  func stayClosed() { if !Mutation.closedListIsReopened.isOn { isToReopen = false } }

  /// Empties it.
  /// - Parameters:
  ///   - opensAgain: if it was open: at once if it was empty, too, else it is to be opened again.
  ///   - count: gets how many have been added since the last time, also those that have been begun. Called first.
  ///   - take: must move the items out, oldest first. Called up to twice.
  func takeIn(opensAgain: Bool, count: (Int, Flow) -> Void, _ take: (UnsafeMutablePointer<WorkItem>, Int, Flow) -> Void) {
    let former = word.bitwiseAnd(~Self.open, ordering: .sequentiallyConsistent).oldValue
    let end = Self.end(former)
    let added = Int((end &- counted) & Self.countMask)
    let left = Self.count(former)
    // Only then is the memory known to be there.
    if added > 0 || left > 0, let items, let flow = flow?.object {
      counted = end
      if added > 0 { count(added, flow) }
      let first = Self.place(of: Self.next(former))
      for offset in 0..<left { ledger.take((first + offset) % Self.capacity) }
      let beforeEnd = min(left, Self.capacity - first)
      if left > 0 { take(items + first, beforeEnd, flow) }
      if left > beforeEnd { take(items, left - beforeEnd, flow) }
    }
    let emptied = end | end << Self.endShift
    let wasOpen = former & Self.open != 0
    let opensAtOnce = left == 0 || Mutation.takenListGoesOn.isOn
    isToReopen = opensAgain && (isToReopen || wasOpen && !opensAtOnce)
    word.store(opensAgain && wasOpen && opensAtOnce ? emptied | Self.open : emptied, ordering: .releasing)
  }
}
