/// A dictionary that knows in which order its entries were used, and what they weigh together. Constant time each.
struct RecencyList<Key: Hashable, Value> {
  private struct Node {
    var key: Key
    var value: Value
    var weight: Int
    var older: Int?
    var newer: Int?
  }

  private var nodes: [Node?] = []
  private var free: [Int] = []
  private var places: [Key: Int] = [:]
  private var oldest: Int?
  private var newest: Int?
  private(set) var weight = 0

  var count: Int { places.count }
  var entries: [(key: Key, value: Value)] { nodes.compactMap { node in node.map { ($0.key, $0.value) } } }

  /// The value, which stays where it is.
  func value(for key: Key) -> Value? { places[key].flatMap { nodes[$0] }?.value }

  /// The least recently used one.
  var first: (key: Key, value: Value)? { oldest.flatMap { nodes[$0] }.map { ($0.key, $0.value) } }

  /// The value, which becomes the most recently used.
  mutating func use(_ key: Key) -> Value? {
    guard let place = places[key], let node = nodes[place] else { return nil }
    if newest != place {
      unlink(place)
      link(place)
    }
    return node.value
  }

  @discardableResult
  mutating func insert(_ value: Value, for key: Key, weight: Int) -> Value? {
    let former = remove(key)
    let place = free.popLast() ?? nodes.count
    let node = Node(key: key, value: value, weight: weight)
    if place == nodes.count { nodes.append(node) } else { nodes[place] = node }
    places[key] = place
    self.weight += weight
    link(place)
    return former
  }

  /// The value takes the place of the one that the key has; nil if it has none.
  mutating func replace(_ value: Value, for key: Key, weight: Int) -> Value? {
    guard let place = places[key], let node = nodes[place] else { return nil }
    nodes[place]?.value = value
    nodes[place]?.weight = weight
    self.weight += weight - node.weight
    return node.value
  }

  @discardableResult
  mutating func remove(_ key: Key) -> Value? {
    guard let place = places.removeValue(forKey: key), let node = nodes[place] else { return nil }
    unlink(place)
    nodes[place] = nil
    free.append(place)
    weight -= node.weight
    return node.value
  }

  /// Takes out the least recently used entry.
  mutating func removeOldest() -> (key: Key, value: Value)? {
    guard let oldest, let key = nodes[oldest]?.key, let value = remove(key) else { return nil }
    return (key, value)
  }

  private mutating func unlink(_ place: Int) {
    guard let node = nodes[place] else { return }
    if let older = node.older { nodes[older]?.newer = node.newer } else { oldest = node.newer }
    if let newer = node.newer { nodes[newer]?.older = node.older } else { newest = node.older }
  }

  private mutating func link(_ place: Int) {
    nodes[place]?.older = newest
    nodes[place]?.newer = nil
    if let newest { nodes[newest]?.newer = place } else { oldest = place }
    newest = place
  }
}
