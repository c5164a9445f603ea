#if canImport(FoundationNetworking)
  import Foundation
  import Testing

  @testable import OwnedRequests

  @Suite struct WaitingDelegateQueueTests {
    /// How many pieces are on their way, and the most that were.
    private final class Pieces: Sendable {
      private let counts = Guarded((now: 0, most: 0, added: 0))

      func enter() {
        counts.withLock {
          $0.now += 1
          $0.added += 1
          $0.most = max($0.most, $0.now)
        }
      }
      func leave() { counts.withLock { $0.now -= 1 } }
      var most: Int { counts.withLock { $0.most } }
      var added: Int { counts.withLock { $0.added } }
    }

    @Test func aSlowDiskHasTheSessionWaitInsteadOfFillingMemory() async throws {
      let stalls = Guarded(0)
      let queue = WaitingDelegateQueue()
      queue.whenStalled { stalls.withLock { $0 += 1 } }
      let pieces = Pieces()
      let hasAdded = Guarded(false)
      Thread.detachNewThread {
        for _ in 0..<1000 {
          queue.addOperation {
            usleep(100)
            pieces.leave()
          }
          pieces.enter()
        }
        hasAdded.withLock { $0 = true }
      }
      #expect(try await eventually { hasAdded.withLock { $0 } })
      #expect(try await eventually { queue.pieceCount == 0 })
      // One piece may be counted before the one that made room for it is.
      #expect(pieces.most <= WaitingDelegateQueue.mostPieces + 1 || stalls.withLock { $0 } > 0)
    }

    @Test func aDiskThatStallsIsToldOfOnceAndHoldsNobodyForLong() async throws {
      let stalls = Guarded(0)
      let queue = WaitingDelegateQueue()
      queue.whenStalled { stalls.withLock { $0 += 1 } }
      let disk = DispatchSemaphore(value: 0)
      let hasAdded = Guarded(false)
      Thread.detachNewThread {
        for number in 0..<WaitingDelegateQueue.mostPieces + 3 { queue.addOperation { if number == 0 { disk.wait() } } }
        hasAdded.withLock { $0 = true }
      }
      #expect(try await eventually { hasAdded.withLock { $0 } })
      #expect(stalls.withLock { $0 } == 1)
      disk.signal()
      #expect(try await eventually { queue.pieceCount == 0 })
    }

    /// What a flooded session hands over until it hears of its end must not fill memory.
    @Test func aSessionThatIsToEndNeitherWaitsNorHandsAnythingOver() async throws {
      let queue = WaitingDelegateQueue()
      let disk = DispatchSemaphore(value: 0)
      let order = Guarded<[String]>([])
      let hasAdded = Guarded(false)
      for _ in 0..<WaitingDelegateQueue.mostPieces {
        queue.addOperation {
          disk.wait()
          #expect(!queue.isDiscarding)
          order.withLock { $0.append("piece") }
        }
      }
      // One waits for room when the end comes.
      Thread.detachNewThread {
        for _ in 0..<10_000 { queue.addOperation { order.withLock { $0.append(queue.isDiscarding ? "discarded" : "taken") } } }
        queue.addLast { order.withLock { $0.append("last") } }
        hasAdded.withLock { $0 = true }
      }
      queue.discard()
      #expect(try await eventually { hasAdded.withLock { $0 } })
      #expect(queue.pieceCount <= WaitingDelegateQueue.mostPieces + 1)
      for _ in 0..<WaitingDelegateQueue.mostPieces { disk.signal() }
      #expect(try await eventually { queue.pieceCount == 0 })
      let entries = order.withLock { $0 }
      #expect(entries.prefix(10_000).allSatisfy { $0 == "discarded" })
      #expect(entries.dropFirst(10_000) == Array(repeating: "piece", count: WaitingDelegateQueue.mostPieces)[...] + ["last"])
    }
  }
#endif
