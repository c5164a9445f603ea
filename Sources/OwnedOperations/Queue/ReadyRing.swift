/// Whose turn it is, at one priority. Guarded by the queue's lock.
///
/// First come, first served: an entry is a run of tickets, one for each record that the lane received in a row, so the entries in
/// order give the order of arrival over all owners, and a million jobs of one owner are one entry.
/// Round robin: each lane with work is in the ring once, and goes to the back after its turn.
struct ReadyRing {
  struct Entry {
    let lane: Lane
    var tickets: Int
  }

  private var storage: [Entry?] = []
  private var head = 0
  private(set) var count = 0
  /// The lane of the last entry, if that was added last.
  private var lastLane: UnsafeMutableRawPointer?

  var isEmpty: Bool { count == 0 }

  var first: Entry? { count == 0 ? nil : storage[head] }

  private func index(_ offset: Int) -> Int { (head + offset) & (storage.count - 1) }

  mutating func append(_ entry: Entry) {
    if count == storage.count { grow() }
    storage[index(count)] = entry
    count += 1
    lastLane = Unmanaged.passUnretained(entry.lane).toOpaque()
  }

  /// Adds a ticket to the last entry if it is the lane's, else a new entry.
  @inline(__always)
  mutating func appendTicket(for lane: Lane) {
    if count > 0, lastLane == Unmanaged.passUnretained(lane).toOpaque() {
      storage[index(count - 1)]?.tickets += 1
    } else {
      append(Entry(lane: lane, tickets: 1))
    }
  }

  mutating func prepend(_ entry: Entry) {
    if count == storage.count { grow() }
    head = (head - 1) & (storage.count - 1)
    storage[head] = entry
    if count == 0 { lastLane = Unmanaged.passUnretained(entry.lane).toOpaque() }
    count += 1
  }

  mutating func removeFirst() {
    storage[head] = nil
    head = (head + 1) & (storage.count - 1)
    count -= 1
    if count == 0, storage.count > 1024 {
      storage = []
      head = 0
    }
  }

  mutating func useFirst(_ tickets: Int) {
    storage[head]?.tickets -= tickets
    if storage[head]?.tickets == 0 { removeFirst() }
  }

  /// Takes every entry out, in order.
  mutating func takeAll() -> [Entry] {
    let entries = (0..<count).compactMap { storage[index($0)] }
    self = ReadyRing()
    return entries
  }

  private mutating func grow() {
    var larger: [Entry?] = []
    larger.reserveCapacity(max(8, storage.count * 2))
    for offset in 0..<count { larger.append(storage[index(offset)]) }
    while larger.count < max(8, storage.count * 2) { larger.append(nil) }
    storage = larger
    head = 0
  }
}
