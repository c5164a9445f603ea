/// The one place where what is the user's is released in the background: captures, operations, owners.
///
/// The last reference to an object runs its deinit, which may wait for a queue, a semaphore, or for ever. So it is handed over here: on a
/// thread that others depend on, and in a call that must not block.
///
/// - Handing over takes constant time, from any thread, and runs no code of the user's. It may be done under a lock.
/// - A value is released once and soon, on a thread of ours that holds no lock and no permit. There is no particular order.
/// - A deinit that blocks holds up nobody else's: see ``Relay``, whose protocol this is.
/// - The caller must not keep a reference of its own (`add(consume value)`): it could turn out to be the last.
/// - A list in one object is one step. To have its elements released one by one, hand over a ``RelayBatch``, or use `add(contentsOf:)`.
enum DeferredReleases {
  private static let relay = Relay()

  /// Releases the value. What it is must be fit to be released on another thread.
  @inline(__always)  // or the value would be boxed in a generic call before it is stored
  static func add<Value>(_ value: consuming Value) {
    relay.release(value)
  }

  /// Releases the closure, without calling it. (As a value of any type it would be wrapped in another closure first.)
  static func add(_ closure: consuming @escaping @Sendable () throws -> Void) {
    relay.release(Closure(body: closure))
  }

  private struct Closure {
    let body: @Sendable () throws -> Void
  }

  /// Releases the elements one by one. Linear, a few nanoseconds each.
  static func add<Value>(contentsOf values: consuming [Value]) {
    let elements = TakenElements(values)
    relay.add(RelaySteps(count: elements.count) { index in _ = elements.take(index) })
  }

  /// The same, for those of a list that the caller has in something else, and which it leaves empty.
  static func add<Value>(emptying values: inout [Value]) {
    guard !values.isEmpty else { return }
    var taken: [Value] = []
    swap(&taken, &values)
    add(contentsOf: consume taken)
  }

  /// Takes the steps of the batch, each of which releases something.
  static func add(_ batch: RelayBatch) {
    relay.add(batch)
  }

  /// For tests. Returns when everything handed over has been released. Not from inside a deinit that runs here.
  static func waitUntilIdle() {
    handOverGathered()
    relay.waitUntilIdle()
  }

  /// What is released without haste is asked for first: it comes to the relay.
  static var isIdle: Bool { !hasGathered && relay.isAtRest }

  static var handedOverCount: Int { relay.handedOverCount }

  /// Calls the body when what was handed over before has been released, or is just being released.
  static func pass(_ body: @escaping @Sendable () -> Void) {
    handOverGathered()
    relay.add(RelaySteps(count: 1) { _ in body() })
  }

  // MARK: Without haste

  private static let gatherer = Gatherer<AnyObject> { add(contentsOf: $0) }

  /// Releases objects within a tenth of a second: to wake a thread for each would cost more than all the rest. For what is small and keeps
  /// nothing of the user's that nobody else holds.
  static func addWithoutHaste<Object: AnyObject>(_ objects: consuming [Object]) {
    if Haste.isForced { add(contentsOf: objects) } else { gatherer.add(contentsOf: objects) }
  }

  private static var hasGathered: Bool { !Haste.isForced && !gatherer.isEmpty }
  private static func handOverGathered() { if !Haste.isForced { gatherer.handOver() } }
}

/// Code of the user's that the library calls in the background, and which may block: `didCancel`, observers, hooks.
///
/// Runs as ``DeferredReleases`` release: in order, on threads of ours, and held up by no other call for longer than a few milliseconds.
package enum DeferredCalls {
  private static let relay = Relay()
  #if OWNED_OPERATIONS_MODEL
    // The threads of another would be explored, too, and are as these.
    private static var resumptions: Relay { relay }
    private static var relays: [Relay] { [relay] }
  #else
    /// One that blocks has a thread, and there may be as many as tasks wait: they hold up nothing else.
    private static let resumptions = Relay()
    private static let relays = [relay, resumptions]
  #endif

  private final class Call: RelayBatch, @unchecked Sendable {  // `body` belongs to the one step
    private var body: (@Sendable () -> Void)?

    init(_ body: @escaping @Sendable () -> Void) {
      self.body = body
      super.init(count: 1)
    }

    override func takeStep(_ index: Int) { body.take()?() }
  }

  /// Any thread; constant time. The closure is released when it has run.
  package static func add(_ body: @escaping @Sendable () -> Void) {
    relay.add(Call(body))
  }

  /// The same, to hand a task to its executor: see ``SuspendedTask``.
  static func resume(_ body: @escaping @Sendable () -> Void) { resumptions.add(Call(body)) }

  /// For tests. Returns when all calls have returned. Not from inside one.
  static func waitUntilIdle() { for relay in relays { relay.waitUntilIdle() } }

  /// For tests.
  static var isIdle: Bool { relays.allSatisfy { $0.isAtRest } }
  static var handedOverCount: Int { relays.reduce(0) { $0 + $1.handedOverCount } }
}

/// The elements of an array, to be taken one by one, each by whoever claims its index.
final class TakenElements<Element>: Sendable {
  let count: Int
  private let elements: RawStorage<Element>

  /// The array goes before anybody else has this, so none of its references is the last.
  init(_ array: consuming [Element]) {
    count = array.count
    elements = RawStorage(capacity: array.count)
    _ = UnsafeMutableBufferPointer(start: elements.start, count: array.count).initialize(from: array)
  }

  /// Once for each index.
  func take(_ index: Int) -> Element { (elements.start + index).move() }
}
