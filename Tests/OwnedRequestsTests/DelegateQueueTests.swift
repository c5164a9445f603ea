#if canImport(FoundationNetworking)
  import Foundation
  import FoundationNetworking
  import Testing

  @testable import OwnedRequests

  @Suite struct DelegateQueueTests {
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
      let queue = DelegateQueue(limit: DelegateQueue.mostPieces)
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
      if pieces.most > DelegateQueue.mostPieces + 1 {
        // Only if the disk was taken to stall. Who waits for room goes on a moment before that is told.
        #expect(try await eventually { stalls.withLock { $0 } > 0 })
      }
    }

    @Test func aDiskThatStallsIsToldOfOnceAndHoldsNobodyForLong() async throws {
      let stalls = Guarded(0)
      let queue = DelegateQueue(limit: DelegateQueue.mostPieces)
      queue.whenStalled { stalls.withLock { $0 += 1 } }
      let disk = DispatchSemaphore(value: 0)
      let hasAdded = Guarded(false)
      Thread.detachNewThread {
        for number in 0..<DelegateQueue.mostPieces + 3 { queue.addOperation { if number == 0 { disk.wait() } } }
        hasAdded.withLock { $0 = true }
      }
      #expect(try await eventually { hasAdded.withLock { $0 } })
      // Who waits for room goes on a moment before that is told.
      #expect(try await eventually { stalls.withLock { $0 } > 0 })
      #expect(stalls.withLock { $0 } == 1)
      disk.signal()
      #expect(try await eventually { queue.pieceCount == 0 })
    }

    /// Tells for each piece whether its session's sockets can pause.
    private final class AskingQueue: OperationQueue, @unchecked Sendable {  // `answers` is guarded by itself
      let answers = Guarded<[Bool]>([])

      override func addOperation(_ block: @escaping @Sendable () -> Void) {
        let canPause = SocketQueuePause() != nil
        answers.withLock { $0.append(canPause) }
        super.addOperation(block)
      }
    }

    /// It rests on a name within Foundation. If this fails, a flooded session is one that waits, and holds up the others.
    @Test(.enabled(if: LoopbackServer.isThere)) func theSocketsOfThisFoundationsSessionsPause() async throws {
      let queue = AskingQueue()
      let session = URLSession(configuration: .ephemeral, delegate: Delegate(), delegateQueue: queue)
      session.dataTask(with: URLRequest(url: URL(string: LoopbackServer.shared!.base.absoluteString + "/bytes?length=300000")!)).resume()
      #expect(try await eventually { queue.answers.withLock { $0.contains(true) } })
      session.invalidateAndCancel()
      #expect(SocketQueuePause() == nil)
    }

    private final class Delegate: NSObject, URLSessionDataDelegate {}

    /// What a flooded session hands over until it hears of its end must not fill memory.
    @Test func aSessionThatIsToEndNeitherWaitsNorHandsAnythingOver() async throws {
      let queue = DelegateQueue(limit: DelegateQueue.mostPieces)
      let disk = DispatchSemaphore(value: 0)
      let order = Guarded<[String]>([])
      let hasAdded = Guarded(false)
      for _ in 0..<DelegateQueue.mostPieces {
        queue.addOperation {
          disk.wait()
          #expect(!queue.isDiscarding)
          order.withLock { $0.append("piece") }
        }
      }
      // One waits for room when the end comes. It is not let go on before that because the disk seems to stall.
      DelegateQueue.timers.suspend()
      Thread.detachNewThread {
        for _ in 0..<10_000 { queue.addOperation { order.withLock { $0.append(queue.isDiscarding ? "discarded" : "taken") } } }
        queue.addLast { order.withLock { $0.append("last") } }
        hasAdded.withLock { $0 = true }
      }
      queue.cancellationBegins()
      DelegateQueue.timers.resume()
      #expect(try await eventually { hasAdded.withLock { $0 } })
      #expect(queue.pieceCount <= DelegateQueue.mostPieces + 1)
      for _ in 0..<DelegateQueue.mostPieces { disk.signal() }
      #expect(try await eventually { queue.pieceCount == 0 })
      let entries = order.withLock { $0 }
      #expect(entries.prefix(10_000).allSatisfy { $0 == "discarded" })
      #expect(entries.dropFirst(10_000) == Array(repeating: "piece", count: DelegateQueue.mostPieces)[...] + ["last"])
    }
  }
#endif
