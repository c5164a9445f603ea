/// Whose turn it is, at one priority. Guarded by the queue's lock.
///
/// First come, first served: an entry is a run of tickets, one for each record that the lane received in a row, so the entries in
/// order give the order of arrival over all owners, and a million jobs of one owner are one entry.
/// Round robin: each lane with work is in the ring once, and goes to the back after its turn.
///
/// Memory of its own instead of an array, because a ticket more is all that most additions cost: no count of references, no check for
/// uniqueness.
struct ReadyRing: ~Copyable {
  struct Entry {
    let lane: Lane
    var tickets: Int
  }

  private typealias Storage = UnsafeMutablePointer<Entry>

  /// The entries are those from `head`, `count` of them, going on at the front behind the end. The rest is not initialised.
  private var storage: Storage?
  private var capacity = 0
  private var head = 0
  private(set) var count = 0
  /// The lane of the last entry, if that was added last.
  private var lastLane: UnsafeMutableRawPointer?

  private static let smallest = 8
  /// An empty ring keeps so much memory.
  private static let mostKept = 1024

  init() {}

  deinit {
    guard let storage else { return }
    for offset in 0..<count { (storage + index(offset)).deinitialize(count: 1) }
    storage.deallocate()
  }

  var isEmpty: Bool { count == 0 }

  /// The lane and the tickets of the first entry, which keeps the lane.
  @inline(__always)
  var unretainedFirst: (lane: Borrowed<Lane>, tickets: Int)? {
    guard count > 0, let storage else { return nil }
    return (Borrowed(storage[head].lane), storage[head].tickets)
  }

  var first: Entry? {
    guard count > 0, let storage else { return nil }
    return storage[head]
  }

  @inline(__always)
  private func index(_ offset: Int) -> Int { (head + offset) & (capacity - 1) }

  mutating func append(_ entry: Entry) {
    let storage = storageWithRoom()
    (storage + index(count)).initialize(to: entry)
    count += 1
    lastLane = Borrowed(entry.lane).address
  }

  /// Adds a ticket to the last entry if it is the lane's, else a new entry.
  @inline(__always)
  mutating func appendTicket(for lane: Lane) {
    if count > 0, lastLane == Borrowed(lane).address, let storage {
      storage[index(count - 1)].tickets += 1
    } else {
      append(Entry(lane: lane, tickets: 1))
    }
  }

  mutating func prepend(_ entry: Entry) {
    let storage = storageWithRoom()
    head = index(-1)
    (storage + head).initialize(to: entry)
    if count == 0 { lastLane = Borrowed(entry.lane).address }
    count += 1
  }

  /// The ring must not be empty.
  mutating func removeFirst() {
    guard count > 0, let storage else { return }
    (storage + head).deinitialize(count: 1)
    head = index(1)
    count -= 1
    if count == 0, capacity > Self.mostKept { self = ReadyRing() }
  }

  /// Uses tickets of the first entry, which goes when none are left.
  mutating func useFirst(_ tickets: Int) {
    guard count > 0, let storage else { return }
    storage[head].tickets -= tickets
    if storage[head].tickets == 0 { removeFirst() }
  }

  /// Takes every entry out, in order.
  mutating func takeAll() -> [Entry] {
    guard let storage else { return [] }
    let entries = (0..<count).map { storage[index($0)] }
    self = ReadyRing()
    return entries
  }

  /// In order. Linear.
  var entries: [Entry] { storage.map { storage in (0..<count).map { storage[index($0)] } } ?? [] }

  /// Has another entry change places with the first. The ring must not be empty.
  /// - Returns: the lane that is first now.
  mutating func swapFirst(with offset: Int) -> Lane {
    let storage = storageWithRoom()
    let first = storage[head]
    storage[head] = storage[index(offset)]
    storage[index(offset)] = first
    lastLane = nil
    return storage[head].lane
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
