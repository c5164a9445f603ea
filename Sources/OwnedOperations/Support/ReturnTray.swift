import Dispatch
import Synchronization

/// Objects that have served, on their way back to threads that make others of their kind.
///
/// Malloc has memory for each thread. Who frees what another thread has allocated takes the lock of that one's, which allocates the next
/// object meanwhile; and what the one doesn't get back it has to take from new memory. So who is done with an object puts it here, and who
/// has just added another lets go of it.
///
/// ## Protocol
///
/// - A slot is zero, or the address of an object with a reference that goes with the address. Slots change by exchange only. So who gets an
///   address out has the reference, and nobody else has.
/// - `put` has one slot after another. What it finds there nobody has come for in a whole round, so it comes out again, for the caller to
///   let go of. No more than `slotCount` wait here.
/// - `isTimerSet` is turned to true by an exchange; who turns it sets the timer. When that goes off it stores false, and then empties all
///   slots. `put` exchanges the slot, and then looks whether the timer is set. All of these are sequentially consistent. So `put` sees
///   false, or the timer sees what was put: nothing waits for longer than the interval, whether anybody comes for it or not.
/// - It may be let go of by any thread that comes along, under locks of the user's. Whoever has the tray sees to it that this runs no code
///   of the user's.
final class ReturnTray<Object: AnyObject>: Sendable {
  private let slotCount: UInt
  private let slots: RawStorage<Atomic<UInt>>
  private let isTimerSet = Atomic(false)
  private let release: @Sendable (consuming Object) -> Void

  /// - Parameters:
  ///   - slotCount: a power of two.
  ///   - release: lets go of an object, on whatever thread.
  init(slotCount: UInt = 32, release: @escaping @Sendable (consuming Object) -> Void) {
    self.slotCount = slotCount
    self.release = release
    slots = RawStorage(zeroes: Int(slotCount))
  }

  deinit { takeAll() }

  /// Puts an object here.
  /// - Parameter turn: counted up by the caller, which need not be the only one.
  func put(_ object: consuming Object, turn: UInt) {
    let former = exchange(UInt(bitPattern: Retained(object).address), at: turn)
    if !isTimerSet.load(ordering: .sequentiallyConsistent), !isTimerSet.exchange(true, ordering: .sequentiallyConsistent) {
      Uptime.call(after: ReturnTimer.interval, on: ReturnTimer.queue) { [self] in timerDidFire() }
    }
    letGo(of: former)
  }

  /// Lets go of an object, if there is one where it looks.
  /// - Parameter turn: counted up by the caller, which need not be the only one.
  func take(turn: UInt) {
    if slots[index(turn)].load(ordering: .relaxed) != 0 { letGo(of: exchange(0, at: turn)) }
  }

  /// Lets go of all objects that are here.
  func takeAll() {
    for turn in 0..<slotCount where slots[index(turn)].load(ordering: .sequentiallyConsistent) != 0 { letGo(of: exchange(0, at: turn)) }
  }

  private func timerDidFire() {
    if Mutation.trayForgetsItsTimer.isOn { takeAll() }
    isTimerSet.store(false, ordering: .sequentiallyConsistent)
    if !Mutation.trayForgetsItsTimer.isOn { takeAll() }
  }

  private func index(_ turn: UInt) -> Int { Int(turn & (slotCount - 1)) }

  private func exchange(_ word: UInt, at turn: UInt) -> UInt {
    if Mutation.trayGivesTwice.isOn, word == 0 {
      let former = slots[index(turn)].load(ordering: .sequentiallyConsistent)
      slots[index(turn)].store(0, ordering: .sequentiallyConsistent)
      return former
    }
    return slots[index(turn)].exchange(word, ordering: .sequentiallyConsistent)
  }

  private func letGo(of word: UInt) {
    if let address = UnsafeMutableRawPointer(bitPattern: word) { release(Retained<Object>(address: address).take()) }
  }
}

private enum ReturnTimer {
  static let interval = DispatchTimeInterval.milliseconds(100)
  static let queue = DispatchQueue(label: "OwnedOperations.returned")
}
