import Foundation
import Testing

@testable import OwnedOperations

#if canImport(Glibc)
  import Glibc

  /// What an operation costs, beside Foundation's bare `Operation`. Prints the figures:
  ///
  ///     swift test -c release -Xswiftc -enable-testing --filter OperationCostTests
  @Suite(.serialized) struct OperationCostTests {
    /// What the allocator has set aside for the instance itself; what it refers to (Foundation's locks) is the same for both.
    private func bytes(_ operation: AnyObject) -> Int {
      typealias UsableSize = @convention(c) (UnsafeMutableRawPointer) -> Int
      guard let symbol = dlsym(nil, "malloc_usable_size") else { return 0 }
      let usableSize = unsafeBitCast(symbol, to: UsableSize.self)
      return withExtendedLifetime(operation) { usableSize(Unmanaged.passUnretained(operation).toOpaque()) + MemoryLayout<Int>.size }
    }

    private func nanoseconds(_ count: Int, _ body: () -> Void) -> Double {
      let elapsed = ContinuousClock().measure { for _ in 0..<count { body() } }
      return Double(elapsed.components.attoseconds) / 1e9 / Double(count) + Double(elapsed.components.seconds) * 1e9 / Double(count)
    }

    @Test func anOperationTakesAtMost160BytesMoreThanTheBaseClass() {
      let lifetime = OwnerLifetime()
      let base = bytes(Operation())
      let owned = bytes(OwnedOperation(lifetime: lifetime))
      let block = bytes(OwnedBlockOperation(lifetime: lifetime) {})
      // Its place in the lifetime's list: 16 bytes, in an array that may be half empty.
      let membership = 2 * 16
      print("bytes: Operation \(base), OwnedOperation \(owned) + \(membership), OwnedBlockOperation \(block) + \(membership)")
      #expect(base > 0 && owned > base)
      #expect(owned + membership - base <= 160)
      #expect(block + membership - base <= 160)
      #expect(OwnedOperation(lifetime: lifetime).extras == nil)
    }

    /// What glibc's malloc keeps for its chunks up to 128 bytes, the size of a chunk included, it takes back without a lock.
    @Test func aHoldIsFreedWithoutALock() {
      let hold = bytes(OwnerHold(Operation()))
      print("bytes: OwnerHold \(hold)")
      #expect(hold > 0 && hold <= 128)
    }

    @Test func printsWhatCreatingAndRunningCosts() {
      let lifetime = OwnerLifetime()
      #if DEBUG
        let (rounds, count) = (3, 2_000)
      #else
        let (rounds, count) = Sanitizer.isActive ? (3, 2_000) : (31, 20_000)
      #endif
      var rows: [String: [Double]] = [:]
      for _ in 0..<rounds {
        rows["create Operation", default: []].append(nanoseconds(count) { _ = Operation() })
        rows["create OwnedOperation", default: []].append(nanoseconds(count) { _ = OwnedOperation(lifetime: lifetime) })
        rows["create BlockOperation", default: []].append(nanoseconds(count) { _ = BlockOperation {} })
        rows["create OwnedBlockOperation", default: []].append(nanoseconds(count) { _ = OwnedBlockOperation(lifetime: lifetime) {} })
        rows["create + start Operation", default: []].append(nanoseconds(count) { Operation().start() })
        rows["create + start OwnedOperation", default: []].append(nanoseconds(count) { OwnedOperation(lifetime: lifetime).start() })
        rows["telling Foundation of a finish", default: []].append(
          nanoseconds(count) { Operation().didChangeValue(forKey: "isFinished") } - rows["create Operation"]!.last!)
      }
      for (name, times) in rows.sorted(by: { $0.key < $1.key }) {
        let sorted = times.sorted()
        print("\(name): \(Int(sorted[sorted.count / 2])) ns (\(Int(sorted[0])) to \(Int(sorted[sorted.count - 1])))")
      }
      for kind in ["OwnedOperation", "OwnedBlockOperation"] {
        // The least of many rounds: what others did on the machine meanwhile is in the rest.
        guard let base = rows["create Operation"]?.min(), let owned = rows["create \(kind)"]?.min() else { continue }
        print("\(kind) adds \(Int(owned - base)) ns to the base class")
      }
      #expect(rows.count == 7)
    }
  }
#endif
