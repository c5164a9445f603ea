#if os(Linux)
  import Foundation
  import Testing

  @testable import OwnedOperations

  /// One thread waits for the times of all alarms, and rings them.
  @Suite struct AlarmClockTests {
    /// Threads that are counted when they end.
    private final class Threads: Sendable {
      let started = Counter()
      private let awaited = Counter()
      private let ended = DispatchSemaphore(value: 0)

      func makeClock(linger: UInt64 = 0, hasTimer: Bool = true) -> AlarmClock {
        AlarmClock(
          linger: linger, makeTimer: { hasTimer ? KernelTimer() : nil },
          start: { [self] body in
            started.add()
            Thread.detachNewThread {
              body()
              self.ended.signal()
            }
          })
      }

      /// All that have been started so far.
      func end() -> Bool {
        while awaited.value < started.value {
          guard ended.waitUntilSignalled() else { return false }
          awaited.add()
        }
        return true
      }
    }

    private static let anHour: UInt64 = 3_600_000_000_000
    private let threads = Threads()

    private func inAnHour(_ alarm: Alarm) { alarm.set(Uptime.now + Self.anHour) }
    private func atOnce(_ alarm: Alarm) { alarm.set(1) }

    // MARK: Times

    @Test func theEarlierTimeWins() {
      let clock = threads.makeClock()
      let (first, second) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
      let alarm = Alarm(on: clock) { first.signal() }
      let other = Alarm(on: clock) { second.signal() }
      inAnHour(alarm)
      #expect(eventually { clock.sleepsUntil != nil })
      atOnce(other)  // another alarm is earlier
      #expect(second.waitUntilSignalled())
      #expect(eventually { clock.sleepsUntil != nil })
      atOnce(alarm)  // the same alarm, at another time
      #expect(first.waitUntilSignalled())
      #expect(threads.end())
      #expect(threads.started.value == 2)  // the guard is the second
    }

    @Test func noneRingsTooEarly() {
      let clock = threads.makeClock()
      let rung = DispatchSemaphore(value: 0)
      let time = Uptime.now + 20_000_000
      let isLate = Mutexed(false)
      let alarm = Alarm(on: clock) {
        isLate.value = Uptime.now >= time
        rung.signal()
      }
      inAnHour(alarm)
      alarm.set(time)
      #expect(rung.waitUntilSignalled())
      #expect(isLate.value)
      #expect(threads.end())
    }

    @Test func theLineIsInOrderOfTime() {
      var random = SplitMix(state: 17)
      let clock = threads.makeClock()
      let alarms = (0..<200).map { _ in Alarm(on: clock) {} }
      var line = AlarmLine()
      var inLine: Set<Int> = []
      for _ in 0..<5_000 {
        let number = Int(random.next() % 200)
        if random.next() % 3 == 0 {
          line.remove(alarms[number])
          inLine.remove(number)
        } else {
          alarms[number].time = random.next() % 100
          line.put(alarms[number])
          inLine.insert(number)
        }
        #expect(line.first?.time == inLine.map { alarms[$0].time }.min())
      }
      var times: [UInt64] = []
      while let first = line.first {
        times.append(first.time)
        line.remove(first)
      }
      #expect(times.count == inLine.count && times == times.sorted())
    }

    // MARK: Bodies

    @Test(arguments: [true, false])
    func bodyThatBlocksHoldsUpNoneThatWaits(hasTimer: Bool) {
      let clock = threads.makeClock(hasTimer: hasTimer)
      let gate = Gate()
      let (rung, blockedRung) = (DispatchSemaphore(value: 0), Counter())
      let blocked = Alarm(on: clock) {
        blockedRung.add()
        gate.pass()
      }
      let other = Alarm(on: clock) { rung.signal() }
      let both = Alarm(on: clock) {
        blocked.set(1)
        other.set(2)
      }
      atOnce(both)
      #expect(gate.hasBegun())
      #expect(rung.waitUntilSignalled())
      atOnce(other)
      #expect(rung.waitUntilSignalled())
      // One that rang `other` may have lost its processor for so long that it was replaced, too; it comes back.
      #expect(eventually { clock.replacedCount == 1 })
      blocked.set(1)  // it rings still
      gate.open()
      #expect(gate.hasBegun())
      #expect(blockedRung.value == 2)
      gate.open()
      #expect(threads.end())
      #expect(clock.replacedCount == 0)
    }

    @Test(arguments: [true, false])
    func bodyThatBlocksHoldsUpNoneThatComesLater(hasTimer: Bool) {
      let clock = threads.makeClock(hasTimer: hasTimer)
      let gate = Gate()
      let rung = DispatchSemaphore(value: 0)
      let blocked = Alarm(on: clock) { gate.pass() }
      let other = Alarm(on: clock) { rung.signal() }
      atOnce(blocked)
      #expect(gate.hasBegun())
      #expect(clock.guardTime == nil)  // nobody is held up
      #expect(threads.started.value == 1)
      atOnce(other)
      #expect(rung.waitUntilSignalled())
      gate.open()
      #expect(threads.end())
    }

    /// The guard wakes when the next is due, not when the body has taken long enough.
    @Test func nobodyIsHeldUpBeforeTheNextIsDue() {
      let clock = threads.makeClock()
      let gate = Gate()
      let (alarm, other) = (Alarm(on: clock) { gate.pass() }, Alarm(on: clock) {})
      let time = Uptime.now + Self.anHour
      other.set(time)
      atOnce(alarm)
      #expect(gate.hasBegun())
      #expect(clock.guardTime == time)
      gate.open()
      #expect(eventually { clock.sleepsUntil == time })
      #expect(clock.guardTime == nil)
      #expect(clock.replacedCount == 0)
      other.cancel()
      atOnce(alarm)
      #expect(gate.hasBegun())
      gate.open()
      #expect(threads.end())
    }

    @Test func alarmThatHasTakenLongHoldsUpNobodyTheNextTime() {
      let clock = threads.makeClock()
      let (rung, ended) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
      let replaced = Journal<Int>()
      let slow = Alarm(on: clock) {
        replaced.write(clock.replacedCount)
        let start = Uptime.now
        while Uptime.now < start + 6_000_000 {}
        ended.signal()
      }
      let other = Alarm(on: clock) { rung.signal() }
      let both = Alarm(on: clock) {
        slow.set(1)
        other.set(2)
      }
      atOnce(slow)
      #expect(ended.waitUntilSignalled())
      #expect(eventually { !clock.isRinging(slow) })  // from then on it is known to take long
      atOnce(both)
      #expect(rung.waitUntilSignalled())
      #expect(ended.waitUntilSignalled())
      #expect(replaced.entries.count == 2 && replaced.entries[0] == 0 && replaced.entries[1] > 0)
      #expect(threads.end())
    }

    @Test func alarmSetWhileItRingsRingsAgainAfterwards() {
      let clock = threads.makeClock()
      let gate = Gate()
      let (ringing, most) = (Counter(), Counter())
      let alarm = Alarm(on: clock) {
        ringing.add()
        most.add(max(0, ringing.value - 1))
        gate.pass()
        ringing.add(-1)
      }
      let (other, rung) = makeAlarm(clock)
      atOnce(alarm)
      #expect(gate.hasBegun())
      atOnce(alarm)
      atOnce(other)  // another thread is the hand now
      #expect(rung.waitUntilSignalled())
      inAnHour(other)
      #expect(eventually { clock.sleepsUntil != nil })  // it has found nothing due
      gate.open()
      #expect(gate.hasBegun())
      atOnce(other)
      gate.open()
      #expect(threads.end())
      #expect(most.value == 0)
    }

    private func makeAlarm(_ clock: AlarmClock) -> (Alarm, DispatchSemaphore) {
      let rung = DispatchSemaphore(value: 0)
      return (Alarm(on: clock) { rung.signal() }, rung)
    }

    // MARK: Ends

    @Test func cancelledAlarmDoesNotRing() {
      let clock = threads.makeClock()
      let rung = Counter()
      let alarm = Alarm(on: clock) { rung.add() }
      let (other, otherRung) = makeAlarm(clock)
      let first = Alarm(on: clock) {
        inAnHour(alarm)
        other.set(3)
        alarm.cancel()
        alarm.set(1)
      }
      atOnce(first)
      #expect(otherRung.waitUntilSignalled())
      #expect(threads.end())
      #expect(rung.value == 0)
    }

    @Test func alarmMayBeCancelledAndLetGoOfInItsOwnRing() {
      let clock = threads.makeClock()
      let kept = Mutexed<Alarm?>(nil)
      let gone: DispatchSemaphore
      do {
        let alarm = Alarm(on: clock) {
          kept.value?.set(1)
          kept.value?.cancel()
          kept.value = nil
        }
        kept.value = alarm
        gone = goodbye(of: alarm)
        atOnce(alarm)
      }
      #expect(gone.waitUntilSignalled())
      #expect(threads.end())
    }

    @Test func noThreadIsThereWithoutAnAlarm() {
      let clock = threads.makeClock()
      let gate = Gate()
      let rung = DispatchSemaphore(value: 0)
      for round in 1...3 {
        let (alarm, other) = (Alarm(on: clock) { gate.pass() }, Alarm(on: clock) { rung.signal() })
        atOnce(alarm)
        #expect(gate.hasBegun())
        atOnce(other)  // so there is a guard, and a second hand
        #expect(rung.waitUntilSignalled())
        gate.open()
        #expect(threads.end(), "round \(round)")
        #expect(clock.sleepsUntil == nil && clock.guardTime == nil)
      }
    }

    /// It stays for a while: one that is set often needs no new thread each time.
    @Test func theThreadStaysForAWhile() {
      let clock = threads.makeClock(linger: Self.anHour)
      let (alarm, rung) = makeAlarm(clock)
      for _ in 0..<3 {
        atOnce(alarm)
        #expect(rung.waitUntilSignalled())
        #expect(eventually { clock.sleepsUntil != nil })
      }
      #expect(threads.started.value == 1)
    }

    // MARK: Costs

    /// Each time that comes costs one change of threads, and is rung by the thread that has waited for it.
    @Test func eachTimeCostsOneChangeOfThreads() {
      let rounds = 50
      let clock = threads.makeClock()
      let switches = Journal<UInt64>()
      let rung = Mutexed<Alarm?>(nil)
      let ended = DispatchSemaphore(value: 0)
      let alarm = Alarm(on: clock) {
        switches.write(Platform.threadUsage?.voluntarySwitches ?? 0)
        guard switches.entries.count <= rounds else {
          rung.value = nil
          ended.signal()
          return
        }
        rung.value?.set(Uptime.now + 1_000_000)
      }
      rung.value = alarm
      atOnce(alarm)
      #expect(ended.waitUntilSignalled())
      #expect(threads.end())
      #expect(threads.started.value == 1)
      let entries = switches.entries
      // A few more: whatever else the thread may have to wait for, such as malloc's locks.
      #expect(entries[rounds] - entries[0] <= UInt64(rounds * 3 / 2))
      #expect(entries[rounds] - entries[0] > 0)
    }
  }
#endif
