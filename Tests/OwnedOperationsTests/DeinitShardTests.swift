import Foundation
import Testing

@testable import OwnedOperations

/// A shard to drive by hand, with keys that are no objects.
private final class Table: @unchecked Sendable {  // the shard is told under its own lock, and asked without
  let shard: UnsafeMutablePointer<DeinitShard>

  init() {
    shard = .allocate(capacity: 1)
    shard.initialize(to: DeinitShard(seed: 0))
  }

  deinit {
    shard.deinitialize(count: 1)
    shard.deallocate()
  }

  static func key(_ number: Int) -> UInt { UInt(number) << 4 }

  func insert(_ number: Int) {
    shard.pointee.lock.withLock { _ = shard.pointee.insertingSlot(of: Self.key(number)) }
  }

  func remove(_ number: Int) {
    shard.pointee.lock.withLock {
      guard let slot = shard.pointee.slot(of: Self.key(number)) else { return }
      shard.pointee.remove(at: slot)
    }
  }

  func mayContain(_ number: Int) -> Bool { shard.pointee.mayContain(Self.key(number)) }
  var live: Int { shard.pointee.lock.withLock { shard.pointee.live } }
  var capacity: Int { shard.pointee.lock.withLock { shard.pointee.capacity } }
}

@Suite struct DeinitShardTests {
  @Test func tableAgreesWithASet() {
    let table = Table()
    var model: Set<Int> = []
    var random = SplitMix(state: 42)
    for step in 0..<60_000 {
      let number = 1 + Int(random.next() % 3_000)
      if step % 20_000 < 10_000 ? random.next() % 3 > 0 : random.next() % 3 == 0 {
        table.insert(number)
        model.insert(number)
      } else {
        table.remove(number)
        model.remove(number)
      }
      if step % 2_000 == 0 {
        #expect((1...3_000).allSatisfy { table.mayContain($0) == model.contains($0) })
        #expect(table.live == model.count)
      }
    }
  }

  @Test func slotsDoNotGrowWithTheNumberOfKeysThatCameAndWent() {
    let table = Table()
    for number in 1...100 { table.insert(number) }
    for number in 101...200_000 {
      table.insert(number)
      table.remove(number - 100)
    }
    #expect(table.live == 100)
    #expect(table.capacity <= 512)
  }

  @Test func aLiveKeyIsNeverMissedWhileOthersComeAndGo() {
    let table = Table()
    let resident = Array(1...40)
    for number in resident { table.insert(number) }
    let misses = HookCounter()
    DispatchQueue.concurrentPerform(iterations: 3) { thread in
      if thread == 0 {
        // Enough to rehash at the same size again and again, and now and then to grow.
        for number in 1_000..<120_000 {
          table.insert(number)
          table.remove(number - (number < 60_000 ? 30 : 300))
        }
      } else {
        for _ in 0..<5_000 {
          for number in resident where !table.mayContain(number) { misses.add() }
        }
      }
    }
    #expect(misses.count == 0)
  }

  private struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
      state &+= 0x9E37_79B9_7F4A_7C15
      var mixed = state
      mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
      mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
      return mixed ^ (mixed >> 31)
    }
  }
}
