import Foundation

/// Where operations stand in a list. Addresses are all it knows of them, and they need no strong hash: a dictionary would take most of the time that it takes to
/// add a dependency.
///
/// Open addressing, at most half full. A removed address keeps its slot, without a place, until the table grows or is made anew.
struct PlacesByAddress {
  private struct Slot {
    /// 0: free.
    var address: UInt = 0
    /// Negative: removed.
    var place = -1
  }

  private var slots: [Slot] = []
  private var used = 0

  var isEmpty: Bool { slots.isEmpty }

  func place(of operation: Operation) -> Int? {
    guard !slots.isEmpty else { return nil }
    let place = slots[slot(of: Self.address(of: operation))].place
    return place >= 0 ? place : nil
  }

  mutating func set(_ place: Int, for operation: Operation) {
    if used * 2 >= slots.count { grow() }
    set(place, for: Self.address(of: operation))
  }

  mutating func remove(_ operation: Operation) {
    guard !slots.isEmpty else { return }
    slots[slot(of: Self.address(of: operation))].place = -1
  }

  private mutating func set(_ place: Int, for address: UInt) {
    let slot = slot(of: address)
    if slots[slot].address == 0 { used += 1 }
    slots[slot] = Slot(address: address, place: place)
  }

  private mutating func grow() {
    let former = slots
    let living = former.count { $0.place >= 0 }
    var capacity = 32
    while capacity < living * 4 { capacity *= 2 }
    slots = Array(repeating: Slot(), count: capacity)
    used = 0
    for slot in former where slot.place >= 0 { set(slot.place, for: slot.address) }
  }

  /// The one with the address, or the free one where it belongs.
  private func slot(of address: UInt) -> Int {
    let mask = slots.count - 1
    // Addresses differ in the middle; the upper half of the product depends on all of their bits.
    var slot = Int(truncatingIfNeeded: UInt64(address) &* 0x9e37_79b9_7f4a_7c15 >> 32) & mask
    while slots[slot].address != address, slots[slot].address != 0 { slot = (slot + 1) & mask }
    return slot
  }

  private static func address(of operation: Operation) -> UInt { UInt(bitPattern: Unmanaged.passUnretained(operation).toOpaque()) }
}
