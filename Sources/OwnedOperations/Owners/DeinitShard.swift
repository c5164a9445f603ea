import Synchronization

/// One part of the table that knows, by address, what is to happen when an object deinitialises.
///
/// Every instance of a hooked class asks on its way out, whether it carries anything or not. So the question "is there anything for this
/// address" is answered without a lock. Only objects that carry something take the lock.
///
/// Protocol. Open addressing with linear probing; the keys (object addresses) and their entries are arrays of equal length.
///
/// - All writes are made under `lock`. What is in `guarded`, and the lists of hooks, are read under it, too. User code never runs
///   under it, and nothing is released under it, because a release can run user code.
/// - The keys are also read without the lock, by ``mayContain(_:)``. A key is stored before the call that installed it returns, and the
///   installing thread holds a strong reference meanwhile. So for the thread that destroys the object, the store has happened.
/// - A slot that lies on the probe path of a live key never becomes `vacant` in the same block. A removed key leaves a `removed` mark,
///   unless the slot after it is vacant: then no probe path crosses it. So a reader can't miss a live key while others are inserted and
///   removed around it.
/// - Rehashing fills another block and then publishes it. A block that was outgrown keeps its keys and is never freed
///   (together they are smaller than the one in use). Rehashing at the same size, to drop `removed` marks, alternates between two
///   blocks, and so clears one that a slow reader may still be in. `generation` tells: it is raised before the clearing, and the clearing
///   stores release. So a reader who saw a cleared slot (its loads acquire) also sees the generation move, and asks again. A false "maybe"
///   costs the lock, a false "no" can't be.
/// - `generation` is raised with a releasing operation, and read acquiring. A reader that sees it raised before it looks for the block then
///   finds no older block than the one in use at that time. (Raised relaxed, it could be seen together with the former use of the block
///   that is being cleared.)
struct DeinitShard: ~Copyable {
  /// What an object carries.
  struct Entry {
    var attachment: (any DeinitAttachment)?
    var hooks = DeinitHookList()

    var isEmpty: Bool { attachment == nil && hooks.isEmpty }
  }

  private static var vacant: UInt { 0 }
  private static var removed: UInt { 1 }
  private static var initialCapacity: Int { 16 }

  /// What only the holder of the lock touches. In a cell: changing a part of a structure counts as an access to all of it. The rest is read
  /// by others meanwhile.
  private struct Guarded: ~Copyable {
    var entries: RawStorage<Entry>
    var live = 0
    var used = 0  // slots that are not vacant
    var spare: KeyBlock?
    var outgrown: [KeyBlock] = []
  }

  let lock: Lock
  private let generation = Atomic<UInt>(0)
  private let published: Atomic<UInt>  // the address of the block of keys in use
  private let guarded: SharedCell<Guarded>

  init(seed: UInt64) {
    lock = Lock(seed: seed)
    published = Atomic(KeyBlock(capacity: Self.initialCapacity).address)
    guarded = SharedCell(Guarded(entries: Self.makeEntries(Self.initialCapacity)))
  }

  deinit {
    let keys = block
    guarded.value.entries.start.deinitialize(count: keys.capacity)
    keys.deallocate()
    guarded.value.spare?.deallocate()
    for keys in guarded.value.outgrown { keys.deallocate() }
  }

  private static func makeEntries(_ capacity: Int) -> RawStorage<Entry> {
    let entries = RawStorage<Entry>(capacity: capacity)
    entries.start.initialize(repeating: Entry(), count: capacity)
    return entries
  }

  /// Whether the address may carry something; exact unless somebody rehashes just now. Takes no lock.
  borrowing func mayContain(_ key: UInt) -> Bool {
    for _ in 0..<4 {
      let before = generation.load(ordering: .acquiring)
      if block.contains(key) { return true }
      if generation.load(ordering: .acquiring) == before { return false }
    }
    return true
  }

  // The rest is called under the lock ------------------------------------------------------------------------------

  /// The number of slots, and of those that are taken.
  var capacity: Int { block.capacity }
  var live: Int { guarded.value.live }

  func slot(of key: UInt) -> Int? {
    let keys = block
    var slot = keys.home(of: key)
    while true {
      let found = keys[slot]
      if found == key { return slot }
      if found == Self.vacant { return nil }
      slot = keys.after(slot)
    }
  }

  func insertingSlot(of key: UInt) -> Int {
    if (guarded.value.used + 1) * 4 > block.capacity * 3 { rehash() }
    let keys = block
    var slot = keys.home(of: key)
    var reusable: Int?
    while true {
      let found = keys[slot]
      if found == key { return slot }
      if found == Self.vacant { break }
      if found == Self.removed, reusable == nil { reusable = slot }
      slot = keys.after(slot)
    }
    if let reusable {
      slot = reusable
    } else {
      guarded.value.used += 1
    }
    guarded.value.live += 1
    keys.store(key, at: slot)
    return slot
  }

  /// The entry must have been emptied: nothing is released here.
  func remove(at slot: Int) {
    let keys = block
    guarded.value.live -= 1
    keys.store(Self.removed, at: slot)
    guard keys[keys.after(slot)] == Self.vacant else { return }
    var slot = slot
    while keys[slot] == Self.removed {
      keys.store(Self.vacant, at: slot)
      guarded.value.used -= 1
      slot = keys.before(slot)
    }
  }

  /// A pointer, because changing it through a subscript would count as a change of the shard.
  func entry(at slot: Int) -> UnsafeMutablePointer<Entry> { guarded.value.entries.start + slot }

  private var block: KeyBlock {
    KeyBlock(address: published.load(ordering: .acquiring))
  }

  private func rehash() {
    let old = block
    let grows = (live + 1) * 2 > old.capacity
    let new: KeyBlock
    if !grows, let spare = guarded.value.spare {
      generation.wrappingAdd(1, ordering: .releasing)
      for slot in 0..<spare.capacity { spare.store(Self.vacant, at: slot) }
      new = spare
    } else {
      new = KeyBlock(capacity: grows ? old.capacity * 2 : old.capacity)
    }
    let entries = guarded.value.entries.start
    let newEntries = Self.makeEntries(new.capacity)
    let newStart = newEntries.start
    for slot in 0..<old.capacity where old[slot] > Self.removed {
      let key = old[slot]
      var target = new.home(of: key)
      while new[target] != Self.vacant { target = new.after(target) }
      new.store(key, at: target)
      swap(&newStart[target], &entries[slot])
    }
    entries.deinitialize(count: old.capacity)
    guarded.value.entries = newEntries
    guarded.value.used = live
    if grows {
      guarded.value.outgrown.append(old)
      if let spare = guarded.value.spare { guarded.value.outgrown.append(spare) }
      guarded.value.spare = nil
    } else {
      guarded.value.spare = old
    }
    published.store(new.address, ordering: .releasing)
  }
}

/// A power of two of keys behind a word that holds the capacity less one, so that one load publishes both.
private struct KeyBlock {
  private let words: UnsafeMutablePointer<Atomic<UInt>>

  init(capacity: Int) {
    words = .allocate(capacity: capacity + 1)
    (words + 0).initialize(to: Atomic(UInt(capacity - 1)))
    for slot in 0..<capacity { (words + slot + 1).initialize(to: Atomic(0)) }
  }

  init(address: UInt) {
    // Only addresses of blocks made above are published.
    words = UnsafeMutablePointer(bitPattern: address).unsafelyUnwrapped
  }

  func deallocate() {
    words.deinitialize(count: capacity + 1)
    words.deallocate()
  }

  var address: UInt { UInt(bitPattern: words) }
  var capacity: Int { Int(mask) + 1 }

  private var mask: UInt { words[0].load(ordering: .relaxed) }

  func home(of key: UInt) -> Int { Self.home(of: key, mask) }

  private static func home(of key: UInt, _ mask: UInt) -> Int { AddressHash(key).place(mask) }

  func after(_ slot: Int) -> Int { Int((UInt(slot) &+ 1) & mask) }
  func before(_ slot: Int) -> Int { Int((UInt(slot) &- 1) & mask) }

  subscript(slot: Int) -> UInt { words[slot + 1].load(ordering: .acquiring) }
  func store(_ key: UInt, at slot: Int) { words[slot + 1].store(key, ordering: .releasing) }

  func contains(_ key: UInt) -> Bool {
    let mask = mask
    var slot = Self.home(of: key, mask)
    while true {
      let found = words[slot + 1].load(ordering: .acquiring)
      if found == key { return true }
      if found == 0 { return false }
      slot = Int((UInt(slot) &+ 1) & mask)
    }
  }
}
