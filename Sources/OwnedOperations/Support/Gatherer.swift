import Dispatch

/// Objects that something is to be done about without haste, until there are many, or a timer goes off.
///
/// - While there are any, the timer is set, or is about to take them. It says that it isn't set any more before it takes what there is.
/// - One at a time hands over, from the taking out until the taker has returned. So who has handed over, or finds none, knows that the
///   taker has had all that was added before, whoever took it out.
final class Gatherer<Element: AnyObject>: Sendable {
  private struct State {
    var elements: [Element] = []
    var isTimerSet = false
  }

  private let state = Locked(State())
  /// Held around `state`, and the taker.
  private let handing = Lock()
  private let most: Int
  private let taker: @Sendable (consuming [Element]) -> Void

  /// - Parameters:
  ///   - most: with how many it doesn't wait for the timer.
  ///   - taker: gets them, on the thread that added the last, or on the timer's, under a lock. Must not block, nor come back here.
  init(most: Int = 1024, taker: @escaping @Sendable (consuming [Element]) -> Void) {
    (self.most, self.taker) = (most, taker)
  }

  /// Whether the taker has had all that was added before.
  var isEmpty: Bool { handing.withLock { state.withLock { $0.elements.isEmpty } } }

  /// Amortised constant time, but for the taker's.
  func add(_ element: consuming Element) {
    var element: Element? = consume element
    add { $0.append(element.take().unsafelyUnwrapped) }  // there: the closure is called once
  }

  @inline(__always)  // or the closure would keep the caller's array
  fileprivate func add(_ append: (inout [Element]) -> Void) {
    let (isTimerDue, isFull) = state.withLock { state in
      append(&state.elements)
      defer { state.isTimerSet = true }
      return (!state.isTimerSet, state.elements.count >= most)
    }
    if isTimerDue { Uptime.call(after: GathererTimer.interval, on: GathererTimer.queue) { [self] in timerDidFire() } }
    if isFull { handOver() }
  }

  private func timerDidFire() {
    if Mutation.gathererForgetsItsTimer.isOn { handOver() }
    state.withLock { $0.isTimerSet = false }
    if !Mutation.gathererForgetsItsTimer.isOn { handOver() }
  }

  /// Hands over what has been gathered.
  func handOver() {
    if Mutation.handOverOvertakesTheTimer.isOn { takeAll() } else { handing.withLock { takeAll() } }
  }

  private func takeAll() {
    let elements = state.withLock { state in
      var elements: [Element] = []
      swap(&elements, &state.elements)
      return elements
    }
    if !elements.isEmpty { taker(consume elements) }
  }
}

enum Haste {
  /// Whether nothing is gathered, because a run of the model leaves nothing to the next. But for scenarios that are about that.
  static var isForced: Bool {
    #if OWNED_OPERATIONS_MODEL
      ModelRun.hasHaste
    #else
      false
    #endif
  }
}

extension Gatherer where Element == AnyObject {
  func add<Object: AnyObject>(contentsOf objects: consuming [Object]) {
    add { elements in
      for object in copy objects { elements.append(object) }  // to cast the array would ask each for its class
      objects = []  // the caller's goes under the lock, and is never the last
    }
  }
}

private enum GathererTimer {
  static let interval = DispatchTimeInterval.milliseconds(100)
  static let queue = DispatchQueue(label: "OwnedOperations.gathered")
}
