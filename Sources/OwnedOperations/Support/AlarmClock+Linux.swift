#if os(Linux) && !canImport(ObjectiveC) && !OWNED_OPERATIONS_MODEL
  import Dispatch

  /// Rings all alarms of the process on one thread, which is there only while an alarm has a time.
  ///
  /// It waits by itself, and rings by itself: one change of threads for each time that comes. A timer of Dispatch's on a queue takes four:
  /// its manager wakes, wakes a worker, is woken to set the timer anew, and the worker parks.
  ///
  /// ## Protocol
  ///
  /// All is in `state`, and in the variables of alarms and hands, under one lock. Taking it acquires, leaving it releases. A semaphore only
  /// ends a sleep: who is woken looks again under the lock.
  ///
  /// The alarms:
  /// - Each is at rest, in the line, or ringing. It never stands in the line while it rings, so it doesn't ring twice at once.
  /// - A hand takes it out of the line and marks it in one hold, then calls its body outside the lock.
  /// - Whoever sets it while it rings notes the time only. Whoever rings it puts it into the line afterwards.
  /// - A cancelled one is put into no line. Nobody waits for one that rings; so its own body may cancel it.
  ///
  /// The hand, the thread that rings:
  /// - `hand` is the one that takes from the line. A thread that finds itself replaced there leaves.
  /// - It writes `sleepsUntil` in the hold in which it finds nothing due. Whoever puts in an earlier alarm later on sees that, and signals.
  /// - It leaves in the hold in which it finds the line empty for the second time, `linger` later. Whoever puts in an alarm then finds
  ///   none, and starts one.
  ///
  /// A body may block for ever:
  /// - A ring holds somebody up from `mayTakeUntil` on, but not before the next alarm in the line is due. `guardTime` is that time.
  /// - It is `.max` when no alarm is in the line: then nothing is armed, and a ring costs no system call. Whoever puts in an alarm while a
  ///   hand rings arms it.
  /// - The kernel's timer is set to `guardTime`, in the same hold. The guard, a thread, is blocked there. Nobody wakes it but the timer.
  /// - A guard that wakes compares the clock with `guardTime`: it may have woken for a ring that is over.
  /// - If the time has come, another thread is made the hand. So it is at once for an alarm that took long the last time, and where there
  ///   is no timer to be had.
  /// - The guard leaves when `guardTimer` is another's or nobody's. The last hand sees to that.
  final class AlarmClock: Sendable {
    static let shared = AlarmClock(linger: 1_000_000_000) { SpareThreads.shared.run($0) }

    /// How long a body may hold up others, in nanoseconds; less while others do so already.
    private static let patience: UInt64 = 5_000_000
    private static let leastPatience: UInt64 = 500_000

    /// A thread that rings alarms.
    private final class Hand: @unchecked Sendable {  // the variables are guarded by the clock's lock
      let semaphore = Semaphore()
      /// 0 unless it sleeps, and nobody has woken it.
      var sleepsUntil: UInt64 = 0
      /// Nil unless it rings.
      var ringsSince: UInt64?
      var mayTakeUntil: UInt64 = 0
      /// Nil unless it has found the line empty.
      var leavesAt: UInt64?
    }

    private enum Step {
      case ring(Alarm)
      case sleep(until: UInt64)
      case leave
    }

    /// What a change has made due, to be done when the lock is free.
    private struct Due {
      var newHand: Hand?
      var wokenHand: Hand?
      var newGuard: KernelTimer?
      var lastGuard: KernelTimer?
    }

    private let state: Locked<State>
    private let linger: UInt64
    private let start: @Sendable (@escaping @Sendable () -> Void) -> Void

    /// - Parameters:
    ///   - linger: how long the thread stays when it has nothing to wait for, in nanoseconds.
    ///   - makeTimer: the guard's. Called under the lock.
    ///   - start: has the body run on another thread.
    init(
      linger: UInt64, makeTimer: @escaping @Sendable () -> KernelTimer? = { KernelTimer() },
      start: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void
    ) {
      state = Locked(State(makeTimer: makeTimer))
      self.linger = linger
      self.start = start
    }

    func set(_ alarm: Alarm, to time: UInt64) { perform(state.withLock { $0.set(alarm, to: time) }) }

    func cancel(_ alarm: Alarm) { perform(state.withLock { $0.cancel(alarm) }) }

    /// For tests: until when the hand sleeps; nil if there is none that does.
    var sleepsUntil: UInt64? { state.withLock { $0.hand.flatMap { $0.sleepsUntil == 0 ? nil : $0.sleepsUntil } } }
    /// For tests: when a ring would hold somebody up; nil if none would.
    var guardTime: UInt64? { state.withLock { $0.guardTime == .max ? nil : $0.guardTime } }
    /// For tests: whether its body is being called, or what that leads to is not yet known.
    func isRinging(_ alarm: Alarm) -> Bool { state.withLock { _ in alarm.isRinging } }
    /// For tests: how many threads ring that are not the hand any more.
    var replacedCount: Int { state.withLock { $0.replacedCount } }

    private func perform(_ due: Due) {
      due.wokenHand?.semaphore.signal()
      if let hand = due.newHand { start { [self] in main(hand) } }
      if let timer = due.newGuard { start { [self] in watch(timer) } }
      due.lastGuard?.set(0)
    }

    // MARK: The hand

    private func main(_ hand: Hand) {
      while true {
        switch nextStep(of: hand) {
        case .ring(let alarm): ring(alarm, hand)
        case .sleep(let time): _ = hand.semaphore.wait(until: DispatchTime(uptimeNanoseconds: time))
        case .leave: return
        }
      }
    }

    private func nextStep(of hand: Hand) -> Step {
      let now = Uptime.now
      let (step, due) = state.withLock { $0.nextStep(of: hand, now: now, linger: linger) }
      perform(due)
      return step
    }

    private func ring(_ alarm: Alarm, _ hand: Hand) {
      alarm.body()
      let now = Uptime.now
      perform(state.withLock { $0.endRing(of: alarm, hand, now: now) })
    }

    // MARK: The guard

    private func watch(_ timer: KernelTimer) {
      var isNeeded = true
      while isNeeded {
        let isThere = timer.wait()
        let now = Uptime.now
        let due = state.withLock { state -> Due in
          isNeeded = state.guardTimer === timer
          return isNeeded ? state.look(now: now, isThere: isThere) : Due()
        }
        if !isThere { isNeeded = false }
        perform(due)
      }
    }

    // MARK: Under the lock

    private struct State {
      var line = AlarmLine()
      var hand: Hand?
      var guardTimer: KernelTimer?
      var guardTime = UInt64.max
      /// How many hands have been replaced, and still ring.
      var replacedCount = 0
      let makeTimer: @Sendable () -> KernelTimer?

      init(makeTimer: @escaping @Sendable () -> KernelTimer?) { self.makeTimer = makeTimer }

      mutating func set(_ alarm: Alarm, to time: UInt64) -> Due {
        guard !alarm.isCancelled else { return Due() }
        alarm.time = time
        if alarm.isRinging { return Due() }
        return time == .max ? takeOut(alarm) : put(alarm)
      }

      mutating func cancel(_ alarm: Alarm) -> Due {
        alarm.isCancelled = true
        return takeOut(alarm)
      }

      /// Nobody sleeps for what isn't there any more: who finds nothing leaves before long.
      private mutating func takeOut(_ alarm: Alarm) -> Due {
        let wasFirst = line.first === alarm
        line.remove(alarm)
        guard wasFirst, line.first == nil, let hand, hand.sleepsUntil != 0 else { return Due() }
        hand.sleepsUntil = 0
        return Due(wokenHand: hand)
      }

      private mutating func put(_ alarm: Alarm) -> Due {
        line.put(alarm)
        guard let hand else { return startHand() }
        if hand.ringsSince != nil { return guardRing(of: hand, now: Uptime.now) }
        guard alarm.time < hand.sleepsUntil else { return Due() }
        hand.sleepsUntil = 0
        return Due(wokenHand: hand)
      }

      private mutating func startHand() -> Due {
        let new = Hand()
        hand = new
        return Due(newHand: new)
      }

      // MARK: The hand

      mutating func nextStep(of hand: Hand, now: UInt64, linger: UInt64) -> (Step, Due) {
        guard self.hand === hand else { return (.leave, Due()) }
        hand.sleepsUntil = 0
        guard let first = line.first else { return nextStepWithoutAlarm(of: hand, now: now, linger: linger) }
        hand.leavesAt = nil
        guard first.time <= now else {
          disarm()
          hand.sleepsUntil = first.time
          return (.sleep(until: first.time), Due())
        }
        return (.ring(first), beginRing(of: first, hand, now: now))
      }

      private mutating func nextStepWithoutAlarm(of hand: Hand, now: UInt64, linger: UInt64) -> (Step, Due) {
        disarm()
        let leavesAt = hand.leavesAt ?? now + linger
        guard hand.leavesAt == nil || now < leavesAt else {
          self.hand = nil
          return (.leave, Due(lastGuard: guardTimer.take()))
        }
        hand.leavesAt = leavesAt
        hand.sleepsUntil = leavesAt
        return (.sleep(until: leavesAt), Due())
      }

      private mutating func beginRing(of alarm: Alarm, _ hand: Hand, now: UInt64) -> Due {
        line.remove(alarm)
        alarm.time = .max
        alarm.isRinging = true
        hand.ringsSince = now
        let patience = max(AlarmClock.leastPatience, AlarmClock.patience / UInt64(1 + replacedCount))
        hand.mayTakeUntil = alarm.isSlow ? now : now + patience
        return guardRing(of: hand, now: now)
      }

      mutating func endRing(of alarm: Alarm, _ hand: Hand, now: UInt64) -> Due {
        alarm.isRinging = false
        alarm.isSlow = now - min(now, hand.ringsSince ?? now) >= AlarmClock.patience
        hand.ringsSince = nil
        if self.hand !== hand { replacedCount -= 1 }
        return alarm.time == .max || alarm.isCancelled ? Due() : put(alarm)
      }

      // MARK: The guard

      /// Has the guard come when the ring begins to hold somebody up.
      private mutating func guardRing(of hand: Hand, now: UInt64) -> Due {
        guard let first = line.first else {
          disarm()
          return Due()
        }
        let time = max(hand.mayTakeUntil, first.time)
        guard time > now else { return replaceHand() }
        guard time != guardTime else { return Due() }
        var due = Due()
        if guardTimer == nil {
          guardTimer = makeTimer()
          due.newGuard = guardTimer
        }
        guard let guardTimer else { return replaceHand() }
        guardTimer.set(time)
        guardTime = time
        return due
      }

      private mutating func disarm() {
        guard guardTime != .max else { return }
        guardTime = .max
        guardTimer?.set(.max)
      }

      private mutating func replaceHand() -> Due {
        disarm()
        replacedCount += 1
        return startHand()
      }

      /// The guard has woken.
      /// - Parameter isThere: whether its timer still is.
      mutating func look(now: UInt64, isThere: Bool) -> Due {
        let time = guardTime
        if !isThere {
          guardTimer = nil
          guardTime = .max
        }
        guard let hand, hand.ringsSince != nil, time != .max else {
          disarm()  // no longer; the hand decides anew before it rings
          return Due()
        }
        guard isThere, now < time else { return guardRing(of: hand, now: now) }
        guardTimer?.set(time)
        return Due()
      }
    }
  }
#endif
