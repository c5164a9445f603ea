#if os(Linux) && !canImport(ObjectiveC) && !OWNED_OPERATIONS_MODEL
  /// Calls a body at a time, on a thread where it may block. One call at a time.
  final class Alarm: @unchecked Sendable {  // the variables are guarded by the clock's lock
    private let clock: AlarmClock
    let body: @Sendable () -> Void
    /// When it is to ring; the maximum for never.
    var time = UInt64.max
    /// Nil while it isn't in the line.
    var place: Int?
    var isRinging = false
    var isCancelled = false
    /// It has taken long when it rang last.
    var isSlow = false

    init(on clock: AlarmClock = .shared, _ body: @escaping @Sendable () -> Void) {
      self.clock = clock
      self.body = body
    }

    /// Has it ring at the time, instead of at the one set before. In nanoseconds of `Uptime`. Any thread.
    func set(_ time: UInt64) { clock.set(self, to: time) }

    /// Once. It doesn't ring any more; nobody waits for one that rings.
    func cancel() { clock.cancel(self) }
  }

  /// Alarms that have a time, the earliest first. The clock's lock guards it, and the alarms.
  struct AlarmLine {
    /// A heap: no alarm is earlier than the one at half its place.
    private var alarms: [Alarm] = []

    var first: Alarm? { alarms.first }

    /// The alarm's time has changed. Logarithmic.
    mutating func put(_ alarm: Alarm) {
      if alarm.place == nil {
        alarm.place = alarms.count
        alarms.append(alarm)
      }
      settle(alarm)
    }

    /// Logarithmic.
    mutating func remove(_ alarm: Alarm) {
      guard let place = alarm.place else { return }
      alarm.place = nil
      let last = alarms.removeLast()
      guard last !== alarm else { return }
      alarms[place] = last
      last.place = place
      settle(last)
    }

    /// Moves the alarm to where it belongs.
    private mutating func settle(_ alarm: Alarm) {
      guard var place = alarm.place else { return }
      while place > 0, alarm.time < alarms[(place - 1) / 2].time {
        move(alarms[(place - 1) / 2], to: place)
        place = (place - 1) / 2
      }
      while let child = earlierChild(of: place), alarms[child].time < alarm.time {
        move(alarms[child], to: place)
        place = child
      }
      move(alarm, to: place)
    }

    private func earlierChild(of place: Int) -> Int? {
      let (left, right) = (2 * place + 1, 2 * place + 2)
      guard right < alarms.count else { return left < alarms.count ? left : nil }
      return alarms[right].time < alarms[left].time ? right : left
    }

    private mutating func move(_ alarm: Alarm, to place: Int) {
      alarms[place] = alarm
      alarm.place = place
    }
  }
#endif
