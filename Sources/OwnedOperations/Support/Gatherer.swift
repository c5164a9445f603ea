import Dispatch

/// Objects that something is to be done about without haste, until there are many, or a timer goes off.
///
/// While there are any, the timer is set, or is about to take them. It says that it isn't set any more before it takes what there is.
final class Gatherer<Element: AnyObject>: Sendable {
  private struct State {
    var elements: [Element] = []
    var isTimerSet = false
  }

  private let state = Locked(State())
  private let most: Int
  private let taker: @Sendable (consuming [Element]) -> Void

  /// - Parameters:
  ///   - most: with how many it doesn't wait for the timer.
  ///   - taker: gets them, on the thread that added the last, or on the timer's. Must not block.
  init(most: Int = 1024, taker: @escaping @Sendable (consuming [Element]) -> Void) {
    (self.most, self.taker) = (most, taker)
  }

  var isEmpty: Bool { state.withLock { $0.elements.isEmpty } }

  /// Amortised constant time, but for the taker's.
  func add(_ element: consuming Element) {
    var element: Element? = consume element
    add { $0.append(element.take().unsafelyUnwrapped) }  // there: the closure is called once
  }

  @inline(__always)  // or the closure would keep the caller's array
  fileprivate func add(_ append: (inout [Element]) -> Void) {
    let (isTimerDue, full) = state.withLock { state in
      append(&state.elements)
      let full = state.elements.count >= most ? state.elements : []
      if !full.isEmpty { state.elements = [] }
      defer { state.isTimerSet = true }
      return (!state.isTimerSet, full)
    }
    if isTimerDue { Uptime.call(after: GathererTimer.interval, on: GathererTimer.queue) { [self] in timerDidFire() } }
    if !full.isEmpty { taker(full) }
  }

  private func timerDidFire() {
    if Mutation.gathererForgetsItsTimer.isOn { handOver() }
    state.withLock { $0.isTimerSet = false }
    if !Mutation.gathererForgetsItsTimer.isOn { handOver() }
  }

  /// Hands over what has been gathered.
  func handOver() {
    let elements = state.withLock { state in
      defer { state.elements = [] }
      return state.elements
    }
    if !elements.isEmpty { taker(elements) }
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
