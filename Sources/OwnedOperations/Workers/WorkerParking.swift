import Dispatch
import Synchronization

/// Where a worker's thread stays for a moment after its queue has run out of work, so that the next job finds a thread that only has to be
/// woken, without going through GCD on both sides. The last worker of a queue parks, for a second, and no more than sixteen in the process
/// do.
///
/// ## Protocol
///
///     away ──park──▶ parked ──call──▶ called ──begin──▶ away
///      │  ◀──timeout───┘                ▲
///      └──────────────call──────────────┘
///
/// - `call` (by whoever dispatches, once until the worker has left again) exchanges `called` for what is there. If that was `parked` the
///   thread is signalled, else the caller sends for one of GCD's.
/// - The thread parks, and gives up after a while, by compare and exchange from `away`, or to it. If it fails it has been called: before it
///   could park, then it goes, and the block that was sent to GCD is next on the worker's serial queue; or in the instant in which it gave
///   up, then the signal is on its way.
/// - Where the caller found nobody, and no thread of GCD's was to be had either, a new thread runs the worker (`WorkerThreads`). The former
///   thread may park beside it; that one never does. The next call finds the former.
/// - `dismissed` is for ever: the queue has gone, or has no use for this worker. A thread that is parked is signalled, and goes.
/// - A call releases what its caller wrote before, and the thread acquires it.
///
/// The thread keeps the worker while it is parked, and not the queue.
struct WorkerParking: ~Copyable {
  private static let away: UInt8 = 0
  private static let parked: UInt8 = 1
  private static let called: UInt8 = 2
  private static let dismissed: UInt8 = 3

  static let most = 16
  static let time = DispatchTimeInterval.seconds(1)
  /// After this long, a parked thread sees to what a queue that is idle doesn't need.
  static let timeToTidyUp = DispatchTimeInterval.milliseconds(100)
  private static let count = Atomic<Int>(0)

  private let state = Atomic<UInt8>(away)
  private let signal = Semaphore()

  /// - Returns: whether a parked thread is on its way.
  @inline(__always)
  func call() -> Bool {
    guard state.exchange(Self.called, ordering: .acquiringAndReleasing) == Self.parked else { return false }
    signal.signal()
    return true
  }

  /// Before the thread looks for work.
  @inline(__always)
  func begin() { state.store(Self.away, ordering: .releasing) }

  /// Parks the thread.
  /// - Parameters:
  ///   - most: how many threads may be parked, this one included.
  ///   - onceParked: for tests. From then on a call finds the thread.
  ///   - tidyUp: called once, when nobody has called for a while; not if nothing comes of parking.
  /// - Returns: whether it has been called. If not, it is to go.
  func park(for time: DispatchTimeInterval = time, atMost most: Int = most, onceParked: () -> Void = {}, tidyUp: () -> Void = {}) -> Bool {
    defer { Self.count.wrappingSubtract(1, ordering: .relaxed) }
    guard Self.count.wrappingAdd(1, ordering: .relaxed).newValue <= most,
      state.compareExchange(expected: Self.away, desired: Self.parked, ordering: .acquiringAndReleasing).exchanged
        || Mutation.parksWithoutExchange.isOn && state.exchange(Self.parked, ordering: .acquiringAndReleasing) != Self.dismissed
    else { return false }
    onceParked()
    let end = Uptime.time(after: time)
    if signal.wait(until: min(end, Uptime.time(after: Self.timeToTidyUp))) { return state.load(ordering: .acquiring) == Self.called }
    tidyUp()
    if !signal.wait(until: end) {
      if Mutation.givesUpWithoutExchange.isOn { state.store(Self.away, ordering: .releasing) }
      if Mutation.givesUpWithoutExchange.isOn { return false }
      if state.compareExchange(expected: Self.parked, desired: Self.away, ordering: .acquiringAndReleasing).exchanged { return false }
      signal.wait()
    }
    return state.load(ordering: .acquiring) == Self.called
  }

  /// For tests.
  var isDismissed: Bool { state.load(ordering: .acquiring) == Self.dismissed }

  func dismiss() {
    if state.exchange(Self.dismissed, ordering: .acquiringAndReleasing) == Self.parked { signal.signal() }
  }
}
