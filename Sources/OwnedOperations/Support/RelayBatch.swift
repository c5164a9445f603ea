import Synchronization

/// Steps that belong together: handed over in constant time, and taken one by one.
class RelayBatch: @unchecked Sendable {  // `next` is atomic; the rest is guarded by the lock of the relay that has the batch
  /// Constant from the moment at which the batch stands in the relay's list.
  fileprivate(set) final var count: Int
  final let next = Atomic<Int>(0)
  final var finished = 0
  /// Runners that are at it.
  final var runners = 0
  final var following: RelayBatch?

  init(count: Int) {
    self.count = count
  }

  /// Called once for each index in `0..<count`, on a thread of the relay's, without a lock. May block; then others are called meanwhile.
  func takeStep(_ index: Int) {}

  final func claim() -> Int? {
    let index = next.wrappingAdd(1, ordering: .relaxed).oldValue
    return index < count ? index : nil
  }

  final var isUsedUp: Bool { next.load(ordering: .relaxed) >= count }
}

/// Steps that one closure takes.
final class RelaySteps: RelayBatch, @unchecked Sendable {  // as its base class; `step` is constant
  private let step: @Sendable (Int) -> Void

  /// - Parameter step: does what ``RelayBatch/takeStep(_:)`` says. Goes with the batch, some time after the last step.
  init(count: Int, step: @escaping @Sendable (Int) -> Void) {
    self.step = step
    super.init(count: count)
  }

  override func takeStep(_ index: Int) { step(index) }
}

/// Gathers what is handed over one by one. Made once, used again and again.
///
/// All members are called under the lock of the relay, which has the batch; but for steps, as ever.
class ReusedBatch: RelayBatch, @unchecked Sendable {  // as its base class; values belong to whoever claims their index
  init() { super.init(count: 0) }

  /// Nobody is in it any more: it is to be filled again.
  func reset() {
    count = 0
    finished = 0
    next.store(0, ordering: .relaxed)
  }
}

/// What can be pushed to a relay: see ``Relay/push(_:)``.
protocol RelayLinked: AnyObject, Sendable {
  /// Whoever has pushed the object doesn't touch it any more; then it belongs to the relay's lock.
  var nextInRelay: UnsafeMutableRawPointer? { get set }
}

/// What has been pushed to a relay, for one step, which gets it together.
class PushedBatch: ReusedBatch, @unchecked Sendable {  // as its base class
  /// Takes as many as it has room for of the objects that have been pushed, in that order.
  /// - Returns: the first of the rest.
  func append(from first: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? { nil }

  /// Links the other way round what has been pushed.
  /// - Returns: the first.
  func reversed(_ last: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer { last }
}

/// Pushed objects of one class.
final class PushedElements<Element: RelayLinked>: PushedBatch, @unchecked Sendable {  // as its base class; `gathered` goes with `count`
  private let elements: RawStorage<Retained<Element>>
  private let most: Int
  private var gathered = 0
  private let taker: @Sendable (_ indices: Range<Int>, _ element: (Int) -> Element) -> Void

  /// - Parameter taker: takes the elements, each once, in one step.
  init(most: Int, taker: @escaping @Sendable (_ indices: Range<Int>, _ element: (Int) -> Element) -> Void) {
    elements = RawStorage(capacity: most)
    (self.most, self.taker) = (most, taker)
  }

  override func append(from first: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? {
    count = 1
    var next: UnsafeMutableRawPointer? = first
    while gathered < most, let address = next {
      let element = Retained<Element>(address: address)
      (elements.start + gathered).initialize(to: element)
      gathered += 1
      next = element.with { element in
        defer { element.nextInRelay = nil }
        return element.nextInRelay
      }
    }
    return next
  }

  override func reversed(_ last: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer {
    var (first, next) = (last, Borrowed<Element>(address: last).with { $0.nextInRelay })
    Borrowed<Element>(address: last).with { $0.nextInRelay = nil }
    while let address = next {
      next = Borrowed<Element>(address: address).with { element in
        defer { element.nextInRelay = first }
        return element.nextInRelay
      }
      first = address
    }
    return first
  }

  override func takeStep(_ index: Int) { taker(0..<gathered) { elements[$0].take() } }

  override func reset() {
    super.reset()
    gathered = 0
  }
}

/// Values to be released, side by side: filled until a runner or another batch comes, or it is full.
final class ReleaseSegment: ReusedBatch, @unchecked Sendable {  // as its base class
  private static let capacity = 128
  private let values = RawStorage<Any>(capacity: capacity)

  deinit {
    let first = min(next.load(ordering: .relaxed), count)
    (values.start + first).deinitialize(count: count - first)
  }

  var isFull: Bool { count == Self.capacity }

  @inline(__always)  // for each value that is handed over
  func append<Value>(_ value: consuming Value) {
    (values.start + count).initialize(to: value)
    count += 1
  }

  override func takeStep(_ index: Int) {
    (values.start + index).deinitialize(count: 1)
  }
}
