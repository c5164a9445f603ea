/// Values by the addresses of objects.
///
/// An address needs no strong hash: `Dictionary` takes tens of nanoseconds for each look, this a few. The map knows nothing of the objects.
/// Whoever has it takes an address out before another object can get it, or asks the value whose it is.
///
/// Open addressing with linear probing, at most half full. What stood behind one that is taken out moves up, so no marks are left behind.
/// Key and value lie side by side. With many owners none is in a cache, and a look waits for one line of memory, not two. The memory comes
/// with the first value, and shrinks with the count, but for a little room where all are taken out at once.
struct PointerMap<Value>: ~Copyable {
  private struct Slot {
    /// Zero if the slot is free.
    var key: UInt = 0
    /// Nil if the slot is free.
    var value: Value?
  }

  private var slots: UnsafeMutablePointer<Slot>?
  private var capacity = 0
  private(set) var count = 0

  private static var smallest: Int { 8 }
  private static var mostKept: Int { 512 }

  init() {}

  deinit { Self.deallocate(slots, capacity) }

  var isEmpty: Bool { count == 0 }

  /// - Complexity: constant for a look, amortised constant for a change, both on average.
  subscript(object: AnyObject) -> Value? {
    @inline(__always) get { self[Borrowed(object).address] }
    set { self[Borrowed(object).address] = newValue }
  }

  subscript(address: UnsafeMutableRawPointer) -> Value? {
    @inline(__always)  // three instructions and a load, for each job that is added
    get {
      guard let slots else { return nil }
      return slots[place(of: UInt(bitPattern: address), slots)].value
    }
    set {
      let key = UInt(bitPattern: address)
      if let newValue { insert(newValue, key) } else { remove(key) }
    }
  }

  private mutating func insert(_ value: Value, _ key: UInt) {
    if (count + 1) * 2 > capacity { resize(to: max(Self.smallest, capacity * 2)) }
    guard let slots else { return }
    let place = place(of: key, slots)
    if slots[place].key == 0 { count += 1 }
    slots[place] = Slot(key: key, value: value)
  }

  private mutating func remove(_ key: UInt) {
    guard let slots else { return }
    var hole = place(of: key, slots)
    guard slots[hole].key == key else { return }
    slots[hole] = Slot()
    count -= 1
    // Those behind may have been pushed along by the one that went: each whose home isn't between the hole and itself moves into the hole.
    var next = after(hole)
    while slots[next].key != 0 {
      let distanceFromHome = (next - home(slots[next].key)) & (capacity - 1)
      let distanceFromHole = (next - hole) & (capacity - 1)
      if distanceFromHome >= distanceFromHole {
        Self.move(slots + next, to: slots + hole)
        hole = next
      }
      next = after(next)
    }
    if capacity > Self.smallest, count * 8 < capacity { resize(to: capacity / 2) }
  }

  mutating func removeAll() { self = PointerMap() }

  /// Without values it needs no memory.
  mutating func giveUpRoom() { if isEmpty { removeAll() } }

  /// Takes out those that the condition holds for. Linear.
  mutating func removeThose(_ isTaken: (Value) -> Bool) -> [Value] {
    var taken: [Value] = []
    guard let slots, count > 0 else { return taken }
    var rest = PointerMap()
    for place in 0..<capacity where slots[place].key != 0 {
      let slot = (slots + place).move()
      (slots + place).initialize(to: Slot())
      guard let value = slot.value else { continue }
      if isTaken(value) { taken.append(value) } else { rest.insert(value, slot.key) }
    }
    count = 0
    // Where values come and go, the next come soon: a little room stays.
    if !rest.isEmpty || capacity > Self.mostKept { self = rest }
    return taken
  }

  /// In no particular order.
  func visit(_ body: (Value) -> Void) {
    guard let slots else { return }
    for place in 0..<capacity {
      if let value = slots[place].value { body(value) }
    }
  }

  func filter(_ isIncluded: (Value) -> Bool) -> [Value] {
    var included: [Value] = []
    visit { if isIncluded($0) { included.append($0) } }
    return included
  }

  // MARK: Places

  /// For tests: the most places in a row that are taken, which is the longest way of a look.
  var longestRun: Int {
    guard let slots else { return 0 }
    var (longest, run) = (0, 0)
    for place in 0..<2 * capacity {
      run = slots[place & (capacity - 1)].key == 0 ? 0 : run + 1
      longest = max(longest, run)
    }
    return min(longest, capacity)
  }

  private func home(_ key: UInt) -> Int { AddressHash(key).place(UInt(capacity - 1)) }

  private func after(_ place: Int) -> Int { (place + 1) & (capacity - 1) }

  /// Where the key is, or the free place where it belongs.
  private func place(of key: UInt, _ slots: UnsafeMutablePointer<Slot>) -> Int {
    var place = home(key)
    while slots[place].key != key, slots[place].key != 0 { place = after(place) }
    return place
  }

  /// To a free slot, without counting references.
  private static func move(_ slot: UnsafeMutablePointer<Slot>, to free: UnsafeMutablePointer<Slot>) {
    free.moveUpdate(from: slot, count: 1)
    slot.initialize(to: Slot())
  }

  private mutating func resize(to newCapacity: Int) {
    let (oldSlots, oldCapacity) = (slots, capacity)
    let newSlots = UnsafeMutablePointer<Slot>.allocate(capacity: newCapacity)
    newSlots.initialize(repeating: Slot(), count: newCapacity)
    (slots, capacity) = (newSlots, newCapacity)
    guard let oldSlots else { return }
    for old in 0..<oldCapacity where oldSlots[old].key != 0 {
      Self.move(oldSlots + old, to: newSlots + place(of: oldSlots[old].key, newSlots))
    }
    Self.deallocate(oldSlots, oldCapacity)
  }

  private static func deallocate(_ slots: UnsafeMutablePointer<Slot>?, _ capacity: Int) {
    slots?.deinitialize(count: capacity)
    slots?.deallocate()
  }
}
