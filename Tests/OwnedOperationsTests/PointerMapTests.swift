import Testing

@testable import OwnedOperations

/// An object to take an address from, and a value to be counted.
private final class Place {
  let number: Int
  init(_ number: Int) { self.number = number }
}

@Suite struct PointerMapTests {
  @Test func aMapAgreesWithADictionaryThroughChangesOfAllKinds() {
    let places = (0..<200).map { Place($0) }
    var map = PointerMap<Int>()
    var model: [Int: Int] = [:]
    var random: UInt64 = 7
    for step in 0..<20_000 {
      random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      let place = places[Int(random >> 33) % places.count]
      // Mostly filled in the one half of the time, mostly emptied in the other.
      let inserts = (random >> 20) % 4 != 0
      if (step / 1000) % 2 == 0 ? inserts : !inserts {
        map[place] = step
        model[place.number] = step
      } else {
        map[place] = nil
        model[place.number] = nil
      }
      #expect(map[place] == model[place.number])
      #expect(map.count == model.count)
    }
    for place in places { #expect(map[place] == model[place.number]) }
    var sum = 0
    map.visit { sum += $0 }
    #expect(sum == model.values.reduce(0, +))
  }

  @Test func whatIsTakenOutIsGoneAndTheRestIsFound() {
    let places = (0..<100).map { Place($0) }
    var map = PointerMap<Int>()
    for place in places { map[place] = place.number }
    let odd = map.removeThose { $0 % 2 == 1 }
    #expect(odd.sorted() == (0..<100).filter { $0 % 2 == 1 })
    for place in places { #expect(map[place] == (place.number % 2 == 0 ? place.number : nil)) }
    #expect(map.count == 50)
    map.removeAll()
    #expect(map.isEmpty && map[places[0]] == nil)
  }

  /// Those that are taken out in the order of their places leave the others close to each other.
  @Test func looksStayShortWhileAMapIsEmptiedInItsOwnOrder() {
    var map = PointerMap<UnsafeMutableRawPointer>()
    for place in 1...100_000 {
      guard let address = UnsafeMutableRawPointer(bitPattern: place * 48) else { continue }
      map[address] = address
    }
    var inOrder: [UnsafeMutableRawPointer] = []
    map.visit { inOrder.append($0) }
    #expect(inOrder.count == 100_000)
    var longest = map.longestRun
    let step = Sanitizer.isActive ? 10_000 : 1000  // each look goes through the whole map
    for (index, address) in inOrder.enumerated() {
      map[address] = nil
      if index % step == 0 { longest = max(longest, map.longestRun) }
    }
    #expect(longest < 64)
    for address in inOrder {
      map[address] = address
      if map.count % step == 0 { longest = max(longest, map.longestRun) }
    }
    #expect(longest < 64)
    _ = map.removeThose { Int(bitPattern: $0) % 3 == 0 }
    #expect(map.longestRun < 64)
  }

  /// Keys that lie apart by a large power of two, as large objects do.
  @Test(arguments: [16, 48, 1024, 1 << 16, 1 << 20]) func looksAreShortWhateverLiesBetweenTheKeys(stride: Int) {
    var map = PointerMap<Int>()
    for place in 1...10_000 {
      guard let address = UnsafeMutableRawPointer(bitPattern: place * stride) else { continue }
      map[address] = place
    }
    #expect(map.longestRun < 64)
  }

  @Test func looksAreShortAmongTheKeysOfOneShard() {
    var map = PointerMap<Int>()
    for place in 1...100_000 {
      guard let address = UnsafeMutableRawPointer(bitPattern: place * 48), AddressHash(address).shard(6) == 17 else { continue }
      map[address] = place
    }
    #expect(map.count > 1000)
    #expect(map.longestRun < 64)
  }

  @Test func valuesAreReleasedWhenTheyAreReplacedTakenOutOrTheMapGoes() {
    let keys = (0..<3).map { Place($0) }
    weak var replaced: Place?
    weak var removed: Place?
    weak var kept: Place?
    do {
      var map = PointerMap<Place>()
      do {
        let values = (0..<3).map { Place($0) }
        (replaced, removed, kept) = (values[0], values[1], values[2])
        for (key, value) in zip(keys, values) { map[key] = value }
      }
      map[keys[0]] = Place(10)
      map[keys[1]] = nil
      #expect(replaced == nil)
      #expect(removed == nil)
      #expect(kept != nil)
      withExtendedLifetime(map[keys[2]]) {}
    }
    #expect(kept == nil)
  }
}
