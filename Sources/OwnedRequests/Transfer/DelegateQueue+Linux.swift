#if canImport(FoundationNetworking)
  import Foundation

  /// The delegate queue of a session: runs what the session hands over, one piece after the other. It sees to it that a flooded session
  /// neither fills memory nor keeps others from their turn.
  ///
  /// On Linux, `URLSession` hands over bytes as fast as they come. All sessions of a process do their work on one thread at a time.
  ///
  /// Without a limit, pieces run at once, on the session's thread, which saves a change of threads for each. Nothing that waits for the
  /// session may happen there. What does, an end that makes room for the next request, goes to the line (`addLast`).
  ///
  /// Protocol with a limit, all under `condition`:
  /// - `pieces` counts what was added and has not run. With as many as the limit, the session's sockets pause until half of them have run.
  ///   What libcurl has begun to read still comes: a hundred pieces at most. Nobody waits.
  /// - Where they can't pause, whoever adds waits for room. While the disk stalls it waits for a `slice` only, so that others go on.
  /// - While there is no room it is looked every `patience` whether a piece has run. If none has, the disk stalls. `whenStalled` is called
  ///   once for each stall, outside the lock. A piece that has run ends the stall.
  /// - Once the session is to stop (`discard`), nothing more is taken. What comes is run at once, on the thread that adds it, and
  ///   `isDiscarding` says so there.
  /// - A flooded session hears of a cancellation when its sockets pause. They do for a `moment`, again and again, while it discards, or
  ///   while a cancellation has not been heard of for longer than that.
  final class DelegateQueue: OperationQueue, SessionBacklog, @unchecked Sendable {  // guarded by `condition`, or constant
    /// A piece has 16 kB at most, as libcurl hands them over.
    static let mostPieces = 64
    private static let patience = 0.25
    private static let slice = 0.05
    private static let moment = 0.002
    /// For tests, too, which hold it.
    static let timers = DispatchQueue(label: "OwnedRequests.pauses", qos: .userInitiated)

    private let limit: Int?
    private let condition = NSCondition()
    /// Runs the pieces. Not this queue's own way, by an operation each, which costs more than to receive and to write the piece.
    private let line = DispatchQueue(label: "OwnedRequests.pieces", qos: .userInitiated)
    private var stallHandler: @Sendable () -> Void = {}
    private var pieces = 0
    private var finished = 0
    private var isWatched = false
    private var isStalled = false
    /// Until there is room.
    private var pause: SocketQueuePause?
    private var isToStop = false
    /// The thread that runs a block whose data nobody wants.
    private var discardingThread: pthread_t?
    private var cancellations = 0
    /// When the first of them was asked for.
    private var cancelledSince = DispatchTime.distantFuture
    private var hasMoment = false

    /// - Parameter limit: how many pieces there may be before the sockets pause; nil if pieces are dealt with at once, without a wait.
    init(limit: Int?) {
      self.limit = limit
      super.init()
      maxConcurrentOperationCount = 1
    }

    override func addOperation(_ block: @escaping @Sendable () -> Void) {
      let isTaken = condition.withLock {
        if isToStop || cancellations > 0 { giveOthersAMoment() }
        return admit()
      }
      if !isTaken { runDiscarding(block) } else if isAtOnce { block() } else { addLast(block) }
    }

    /// - Returns: false if it is to be discarded.
    private func admit() -> Bool {
      guard let limit, !isToStop, pieces >= limit else { return !isToStop }
      watch()
      if pause == nil { pause = SocketQueuePause() }
      if pause == nil { waitForRoom(limit) }
      return !isToStop
    }

    private func waitForRoom(_ limit: Int) {
      while pieces >= limit, !isToStop, !isStalled { condition.wait() }
      let deadline = Date(timeIntervalSinceNow: Self.slice)
      while pieces >= limit, !isToStop, condition.wait(until: deadline) {}
    }

    /// At once and here: what takes a way through another thread would be slower than the flood.
    private func runDiscarding(_ block: @Sendable () -> Void) {
      condition.withLock { discardingThread = pthread_self() }
      block()
      condition.withLock { discardingThread = nil }
    }

    /// For tests.
    var pieceCount: Int { condition.withLock { pieces } }

    // MARK: Stalls

    /// Slow is not stalled: looks whether one more piece has run.
    private func watch() {
      guard !isWatched, !isStalled else { return }
      isWatched = true
      let former = finished
      Self.timers.asyncAfter(deadline: .now() + Self.patience) { [weak self] in self?.lookForStall(since: former) }
    }

    private func lookForStall(since former: Int) {
      let stallHandler: (@Sendable () -> Void)? = condition.withLock {
        isWatched = false
        guard let limit, !isToStop, pieces > limit / 2 else { return nil }
        guard finished == former else {
          watch()
          return nil
        }
        isStalled = true
        condition.broadcast()
        return self.stallHandler
      }
      stallHandler?()
    }

    // MARK: Turns of others

    private func giveOthersAMoment() {
      guard !hasMoment, isToStop || DispatchTime.now() > cancelledSince + Self.moment, let moment = SocketQueuePause() else { return }
      hasMoment = true
      Self.timers.asyncAfter(deadline: .now() + Self.moment) { [self] in
        withExtendedLifetime(moment) { condition.withLock { hasMoment = false } }
      }
    }

    // MARK: SessionBacklog

    func whenStalled(_ handler: @escaping @Sendable () -> Void) { condition.withLock { stallHandler = handler } }

    func cancellationBegins() {
      condition.withLock {
        if cancellations == 0 { cancelledSince = .now() }
        cancellations += 1
      }
      if limit != nil { discard() }
    }

    func cancellationEnds() {
      condition.withLock { cancellations -= 1 }
    }

    private func discard() {
      var former: SocketQueuePause?
      condition.withLock {
        isToStop = true
        swap(&former, &pause)
        condition.broadcast()
      }
    }

    var isDiscarding: Bool {
      guard limit != nil else { return false }
      return condition.withLock { discardingThread.map { pthread_equal($0, pthread_self()) != 0 } ?? false }
    }

    var isAtOnce: Bool { limit == nil }

    var discards: Bool { condition.withLock { isToStop } }

    func addLast(_ block: @escaping @Sendable () -> Void) {
      condition.withLock { pieces += 1 }
      line.async { [self] in
        block()
        var former: SocketQueuePause?
        condition.withLock {
          pieces -= 1
          finished += 1
          isStalled = false
          if let limit, pause != nil {
            if pieces <= limit / 2 { swap(&former, &pause) } else { watch() }
          }
          condition.signal()
        }
      }
    }
  }
#endif
