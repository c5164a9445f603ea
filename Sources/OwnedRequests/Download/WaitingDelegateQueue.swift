import Foundation

#if canImport(FoundationNetworking)
  /// The delegate queue of a download's session: takes so many pieces, then has the session wait until the disk has caught up, but
  /// never long.
  ///
  /// On Linux, `URLSession` hands over bytes as fast as they come, and a disk slower than the network would fill memory. But all
  /// sessions of a process do their work on one serial queue (in Swift 6.3), so one that waits holds up the others.
  ///
  /// Protocol, all under `condition`:
  /// - `pieces` counts what was added and has not run. Who adds waits while it is at its limit, and counts as a wait.
  /// - If no piece has run within `patience`, the disk stalls. `whenStalled` is called then, outside the lock, once for each stall.
  /// - While the disk stalls each further piece waits `slice`, and is let through. So memory grows by little, and others go on.
  /// - A piece that has run ends the stall.
  /// - Once the session is to stop (`discard`), nobody waits any more, and nothing more is taken: what comes is run at once, on the
  ///   thread that adds it, and `isDiscarding` says so there. A session that is flooded hears of its end only when the flood pauses, and
  ///   what it hands over until then would fill memory.
  final class WaitingDelegateQueue: OperationQueue, DelegateBacklog, @unchecked Sendable {  // guarded by `condition`, or constant
    /// A piece has 16 kB at most, as libcurl hands them over.
    static let mostPieces = 64
    private static let patience = 0.25
    private static let slice = 0.05

    private enum Admission {
      case taken, takenAsStallBegins, discarded
    }

    private let condition = NSCondition()
    /// Runs the pieces. Not this queue's own way, by an operation each, which costs more than to receive and to write the piece.
    private let line = DispatchQueue(label: "OwnedRequests.pieces", qos: .userInitiated)
    private var stallHandler: @Sendable () -> Void = {}
    private var pieces = 0
    private var finished = 0
    private var isStalled = false
    private var discards = false
    /// The thread that runs a block whose data nobody wants.
    private var discardingThread: pthread_t?

    override init() {
      super.init()
      maxConcurrentOperationCount = 1
    }

    /// - Parameter handler: called by the session while it holds up all others; must not wait.
    func whenStalled(_ handler: @escaping @Sendable () -> Void) { condition.withLock { stallHandler = handler } }

    override func addOperation(_ block: @escaping @Sendable () -> Void) {
      let (admission, stallHandler) = condition.withLock { (admit(), self.stallHandler) }
      switch admission {
      case .discarded: return runDiscarding(block)
      case .takenAsStallBegins: stallHandler()
      case .taken: break
      }
      addLast(block)
    }

    private func admit() -> Admission {
      guard !discards else { return .discarded }
      let stallBegins = !waitForRoom()
      // One for whom the session waited, too.
      guard !discards else { return .discarded }
      return stallBegins ? .takenAsStallBegins : .taken
    }

    /// - Returns: false if a stall begins.
    private func waitForRoom() -> Bool {
      guard pieces >= Self.mostPieces else { return true }
      let former = finished
      let deadline = Date(timeIntervalSinceNow: isStalled ? Self.slice : Self.patience)
      while pieces >= Self.mostPieces, !discards {
        guard !condition.wait(until: deadline) else { continue }
        // Slow is not stalled.
        guard finished == former, !isStalled else { return true }
        isStalled = true
        return false
      }
      return true
    }

    /// At once and here: what takes a way through another thread would be slower than the flood.
    private func runDiscarding(_ block: @Sendable () -> Void) {
      condition.withLock { discardingThread = pthread_self() }
      block()
      condition.withLock { discardingThread = nil }
    }

    /// For tests.
    var pieceCount: Int { condition.withLock { pieces } }

    // MARK: DelegateBacklog

    func discard() {
      condition.withLock {
        discards = true
        condition.broadcast()
      }
    }

    var isDiscarding: Bool { condition.withLock { discardingThread.map { pthread_equal($0, pthread_self()) != 0 } ?? false } }

    func addLast(_ block: @escaping @Sendable () -> Void) {
      condition.withLock { pieces += 1 }
      line.async { [self] in
        block()
        condition.withLock {
          pieces -= 1
          finished += 1
          isStalled = false
          condition.signal()
        }
      }
    }
  }
#endif
