/// Whose turn it is, at one priority. Guarded by the queue's lock.
///
/// First come, first served: an entry is a run of tickets, one for each item that the flow received in a row. The entries in order give the
/// order of arrival over all owners. A million jobs of one owner are one entry.
/// Round robin: each flow with work is in the run queue once, and goes to the back after its turn.
///
/// First come, first served, an entry that was taken out comes back at its place by age, among `returned`. What came to the run queue's end
/// is in the order of its age. All of it is younger than what has been at the front.
///
/// Memory of its own instead of an array, because one more ticket is all that most additions cost. There is no count of references, no
/// check for uniqueness.
struct RunQueue: ~Copyable {
  typealias Entry = TicketRun

  private typealias Storage = UnsafeMutablePointer<Entry>

  /// The entries are those from `head`, `count` of them, going on at the front behind the end. The rest is not initialised.
  private var storage: Storage?
  private var capacity = 0
  private var head = 0
  private(set) var count = 0
  /// The flow of the last entry, if that was added last, with an age of its own.
  private var lastFlow: UnsafeMutableRawPointer?
  private var returned = ReturnedTurns()
  private(set) var lastAge: UInt64 = 0
  /// Void tickets, and those that were void and have come up since `BarrierPhase.dropVoidTurns` has looked at all.
  var voidTickets = 0

  private static let smallest = 8
  /// An empty run queue keeps so much memory.
  private static let mostKept = 1024

  init() {}

  deinit {
    guard let storage else { return }
    for offset in 0..<count { (storage + index(offset)).deinitialize(count: 1) }
    storage.deallocate()
  }

  var isEmpty: Bool { count == 0 && returned.isEmpty }

  /// With those that have come back.
  var entryCount: Int { count + returned.count }

  /// Whether all entries are known to be the flow's.
  func holdsNone(but flow: Borrowed<Flow>) -> Bool {
    guard count > 0, let storage else { return returned.isEmpty }
    return count == 1 && returned.isEmpty && Borrowed(storage[head].flow).address == flow.address
  }

  /// An age greater than all before.
  mutating func makeAge() -> UInt64 {
    lastAge += 1
    return lastAge
  }

  /// Whether the first entry is one of `returned`.
  private var isReturnedFirst: Bool {
    if returned.isEmpty { return false }
    guard count > 0, let storage else { return true }
    return returned.first.age <= storage[head].age
  }

  /// The flow, the tickets and the age of the first entry, which keeps the flow.
  var unretainedFirst: (flow: Borrowed<Flow>, tickets: Int, age: UInt64)? {
    if isReturnedFirst { return returned.unretainedFirst }
    guard count > 0, let storage else { return nil }
    return (Borrowed(storage[head].flow), storage[head].tickets, storage[head].age)
  }

  var first: Entry? {
    if isReturnedFirst { return returned.first }
    guard count > 0, let storage else { return nil }
    return storage[head]
  }

  // Where owners take turns in adding, each turn is of another flow, in memory that whoever added has in his cache, or nobody. To fetch
  // that takes longer than all else that is done with it, and several can be under way at a time.

  private static let flowsAhead = 8
  private static let contentsAhead = 4

  /// Before the first of several entries is used.
  func prefetchFirst() {
    guard count > 1, let storage else { return }
    for offset in 0..<min(count, Self.flowsAhead) { Prefetch.toWrite(Borrowed(storage[index(offset)].flow).address) }
  }

  /// Before each of them is used.
  func prefetchNext() {
    guard count > Self.contentsAhead, let storage else { return }
    if count > Self.flowsAhead { Prefetch.toWrite(Borrowed(storage[index(Self.flowsAhead)].flow).address) }
    Borrowed(storage[index(Self.contentsAhead)].flow).with { $0.prefetch() }
  }

  private func index(_ offset: Int) -> Int { (head + offset) & (capacity - 1) }

  /// Adds an entry that has its age.
  mutating func append(_ entry: Entry) {
    let storage = storageWithRoom()
    (storage + index(count)).initialize(to: entry)
    count += 1
    lastFlow = nil
  }

  /// Adds a ticket to the last entry if it is the flow's, else a new entry.
  @inline(__always)  // for each job
  mutating func appendTicket(for flow: Flow) {
    if count > 0, lastFlow == Borrowed(flow).address, let storage {
      storage[index(count - 1)].tickets += 1
    } else {
      append(Entry(flow: flow, tickets: 1, age: makeAge()))
      lastFlow = Borrowed(flow).address
    }
  }

  /// First come, first served: an entry comes back.
  mutating func bringBack(_ entry: Entry) { returned.insert(entry) }

  /// Round robin only.
  mutating func prepend(_ entry: Entry) {
    let storage = storageWithRoom()
    head = index(-1)
    (storage + head).initialize(to: entry)
    if count == 0 { lastFlow = nil }
    count += 1
  }

  /// The run queue must not be empty.
  mutating func removeFirst() {
    if isReturnedFirst { return returned.removeFirst() }
    guard count > 0, let storage else { return }
    (storage + head).deinitialize(count: 1)
    head = index(1)
    count -= 1
    if count == 0, capacity > Self.mostKept { deallocate() }
  }

  /// The youngest entry, unless that has come back.
  var last: Entry? {
    guard count > 0, let storage else { return nil }
    return storage[index(count - 1)]
  }

  /// There must be a `last`.
  mutating func removeLast() {
    guard count > 0, let storage else { return }
    (storage + index(count - 1)).deinitialize(count: 1)
    count -= 1
    lastFlow = nil
    if count == 0, capacity > Self.mostKept { deallocate() }
  }

  /// Uses tickets of the first entry, which goes when none are left.
  mutating func useFirst(_ tickets: Int) {
    if isReturnedFirst { return returned.useFirst(tickets) }
    guard count > 0, let storage else { return }
    storage[head].tickets -= tickets
    if storage[head].tickets == 0 { removeFirst() }
  }

  /// Takes every entry out, in order. Void tickets are the caller's to drop.
  mutating func takeAll() -> [Entry] {
    voidTickets = 0
    var entries = queued
    if !returned.isEmpty { entries = (returned.takeAll() + entries).sorted { $0.age < $1.age } }
    if let storage {
      for offset in 0..<count { (storage + index(offset)).deinitialize(count: 1) }
      deallocate()
    }
    return entries
  }

  /// The run queue is empty.
  private mutating func deallocate() {
    storage?.deallocate()
    (storage, capacity, head, count) = (nil, 0, 0, 0)
  }

  private var queued: [Entry] { storage.map { storage in (0..<count).map { storage[index($0)] } } ?? [] }

  /// In order. Linear.
  mutating func entries() -> [Entry] {
    if !returned.isEmpty {
      let void = voidTickets
      for entry in takeAll() { append(entry) }
      voidTickets = void
    }
    return queued
  }

  /// Has another of `entries()` change places with the first. The run queue must not be empty.
  /// - Returns: the flow that is first now.
  mutating func swapFirst(with offset: Int) -> Flow {
    let storage = storageWithRoom()
    let first = storage[head]
    storage[head] = storage[index(offset)]
    storage[index(offset)] = first
    lastFlow = nil
    return storage[head].flow
  }

  private mutating func storageWithRoom() -> Storage {
    if let storage, count < capacity { return storage }
    let larger = Storage.allocate(capacity: max(Self.smallest, capacity * 2))
    if let storage {
      for offset in 0..<count { (larger + offset).moveInitialize(from: storage + index(offset), count: 1) }
      storage.deallocate()
    }
    capacity = max(Self.smallest, capacity * 2)
    storage = larger
    head = 0
    return larger
  }
}
