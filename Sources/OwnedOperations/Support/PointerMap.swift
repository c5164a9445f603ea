/// Values by the addresses of objects.
///
/// An address needs no strong hash: `Dictionary` takes tens of nanoseconds for each look, this a few. The map knows nothing of the objects:
/// whoever has it takes an address out before another object can get it, or asks the value whose it is.
///
/// Open addressing with linear probing, at most half full. What stood behind one that is taken out moves up, so no marks are left behind.
/// The memory comes with the first value, and shrinks with the count.
struct PointerMap<Value>: ~Copyable {
  private var keys: UnsafeMutablePointer<UInt>?
  private var values: UnsafeMutablePointer<Value>?
  private var capacity = 0
  private(set) var count = 0

  private static var smallest: Int { 8 }

  init() {}

  deinit { Self.deallocate(keys, values, capacity) }

  var isEmpty: Bool { count == 0 }

  /// - Complexity: constant for a look, amortised constant for a change, both on average.
  subscript(object: AnyObject) -> Value? {
    @inline(__always) get { self[Borrowed(object).address] }
    set { self[Borrowed(object).address] = newValue }
  }

  subscript(address: UnsafeMutableRawPointer) -> Value? {
    @inline(__always)  // three instructions and a load, for each job that is added
    get {
      let key = UInt(bitPattern: address)
      guard let keys, let values else { return nil }
      let place = place(of: key, keys)
      return keys[place] == key ? values[place] : nil
    }
    set {
      let key = UInt(bitPattern: address)
      if let newValue { insert(newValue, key) } else { remove(key) }
    }
  }

  private mutating func insert(_ value: Value, _ key: UInt) {
    if (count + 1) * 2 > capacity { resize(to: max(Self.smallest, capacity * 2)) }
    guard let keys, let values else { return }
    let place = place(of: key, keys)
    if keys[place] == key {
      values[place] = value
      return
    }
    keys[place] = key
    (values + place).initialize(to: value)
    count += 1
  }

  private mutating func remove(_ key: UInt) {
    guard let keys, let values else { return }
    var hole = place(of: key, keys)
    guard keys[hole] == key else { return }
    (values + hole).deinitialize(count: 1)
    keys[hole] = 0
    count -= 1
    // Those behind may have been pushed along by the one that went: each whose home isn't between the hole and itself moves into the hole.
    var next = after(hole)
    while keys[next] != 0 {
      let distanceFromHome = (next - home(keys[next])) & (capacity - 1)
      let distanceFromHole = (next - hole) & (capacity - 1)
      if distanceFromHome >= distanceFromHole {
        keys[hole] = keys[next]
        (values + hole).moveInitialize(from: values + next, count: 1)
        keys[next] = 0
        hole = next
      }
      next = after(next)
    }
    if capacity > Self.smallest, count * 8 < capacity { resize(to: capacity / 2) }
  }

  mutating func removeAll() { self = PointerMap() }

  /// Takes out those that the condition holds for. Linear.
  mutating func removeThose(_ isTaken: (Value) -> Bool) -> [Value] {
    var taken: [Value] = []
    var rest = PointerMap()
    if let keys, let values {
      for place in 0..<capacity where keys[place] != 0 {
        if isTaken(values[place]) { taken.append(values[place]) } else { rest.insert(values[place], keys[place]) }
      }
    }
    self = rest
    return taken
  }

  /// In no particular order.
  func visit(_ body: (Value) -> Void) {
    guard let keys, let values else { return }
    for place in 0..<capacity where keys[place] != 0 { body(values[place]) }
  }

  func filter(_ isIncluded: (Value) -> Bool) -> [Value] {
    var included: [Value] = []
    visit { if isIncluded($0) { included.append($0) } }
    return included
  }

  // MARK: Places

  /// For tests: the most places in a row that are taken, which is the longest way of a look.
  var longestRun: Int {
    guard let keys else { return 0 }
    var (longest, run) = (0, 0)
    for place in 0..<2 * capacity {
      run = keys[place & (capacity - 1)] == 0 ? 0 : run + 1
      longest = max(longest, run)
    }
    return min(longest, capacity)
  }

  private func home(_ key: UInt) -> Int { AddressHash(key).place(UInt(capacity - 1)) }

  private func after(_ place: Int) -> Int { (place + 1) & (capacity - 1) }

  /// Where the key is, or the free place where it belongs.
  private func place(of key: UInt, _ keys: UnsafeMutablePointer<UInt>) -> Int {
    var place = home(key)
    while keys[place] != key, keys[place] != 0 { place = after(place) }
    return place
  }

  private mutating func resize(to newCapacity: Int) {
    let (oldKeys, oldValues, oldCapacity) = (keys, values, capacity)
    let newKeys = UnsafeMutablePointer<UInt>.allocate(capacity: newCapacity)
    let newValues = UnsafeMutablePointer<Value>.allocate(capacity: newCapacity)
    newKeys.initialize(repeating: 0, count: newCapacity)
    (keys, values, capacity) = (newKeys, newValues, newCapacity)
    guard let oldKeys, let oldValues else { return }
    for old in 0..<oldCapacity where oldKeys[old] != 0 {
      let place = place(of: oldKeys[old], newKeys)
      newKeys[place] = oldKeys[old]
      (newValues + place).moveInitialize(from: oldValues + old, count: 1)
      oldKeys[old] = 0
    }
    Self.deallocate(oldKeys, oldValues, oldCapacity)
  }

  private static func deallocate(_ keys: UnsafeMutablePointer<UInt>?, _ values: UnsafeMutablePointer<Value>?, _ capacity: Int) {
    guard let keys, let values else { return }
    for place in 0..<capacity where keys[place] != 0 { (values + place).deinitialize(count: 1) }
    keys.deallocate()
    values.deallocate()
  }
}
