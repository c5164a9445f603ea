import Foundation

/// One observation's notifications on their way to a queue: each is an operation there, and they are delivered one at a time, in the order
/// of the posts.
///
/// So the queue's rules hold for each delivery by itself: those behind the one that runs are counted, waited for, suspended and cancelled
/// like any operation that has to wait for another.
///
/// ## Protocol
///
/// All of it is guarded by `lock`; nothing of the user's is called or released under it, and no delivery is told anything.
///
/// - A delivery is made waiting for its turn (`awaitTurn`), as an operation waits for a dependency. It can't be started before it has it.
/// - At most one delivery has the turn, from the hold of the lock that puts it in `turn` until it passes the turn on. It is told outside.
/// - Deliveries that wait stand in `waiting`, in the order of the posts. The first that is not void gets the turn when it is free.
/// - A delivery that has begun passes the turn on when the handler has returned: before it has finished, so that it may be begun beside it.
/// - One that finishes without having begun (cancelled, or its owner ended) is void. It passes the turn on if it has it.
/// - Telling a delivery may find that its owner has ended, and finish it: then it passes the turn on inside that call. `passers` counts the
///   threads that pass the turn on, each in a loop: while there are any, a void delivery leaves the turn to them, so that they nest no
///   deeper. A thread counts itself out in the hold in which it sees that the turn is taken, or that nobody waits.
/// - So: `turn == nil` and `passers == 0` only if nobody waits.
/// - `close` takes everything out, also the way to the queue, and has what has not begun cancelled: operations keep their queue, and a
///   suspended one would be kept for ever. Later posts are dropped.
final class DeliveryLine: @unchecked Sendable {  // by the protocol above
  /// Adds the delivery to the queue.
  typealias Submit = @Sendable (_ delivery: OwnedOperation) -> Void

  private let lock = Lock()
  /// Nil once it is closed.
  private var submit: Submit?
  private var turn: Delivery?
  private var passers = 0
  private var waiting: [Delivery] = []
  private var front = 0

  init(_ submit: @escaping Submit) { self.submit = submit }

  fileprivate final class Delivery: OwnedOperation, @unchecked Sendable {  // what varies is guarded by the line's lock
    private let line: DeliveryLine
    let observation: OwnedObservation
    var notification: Notification?
    var hasBegun = false

    init(_ notification: Notification, _ line: DeliveryLine, _ observation: OwnedObservation) {
      (self.notification, self.line, self.observation) = (notification, line, observation)
      super.init(lifetime: observation.lifetime)
    }

    var isVoid: Bool { notification == nil }

    override func perform() { line.deliver(self) }
    override func releaseWork() { line.drop(self) }
    override var mayHaveCondition: Bool { false }
    override var ignoresCancellation: Bool { true }
  }

  /// On the thread that posts.
  func add(_ notification: Notification, for observation: OwnedObservation) {
    let delivery = Delivery(notification, self, observation)
    delivery.awaitTurn()
    var hasTurn = false
    let submit = lock.withLock { () -> Submit? in
      guard let submit = self.submit else { return nil }
      // One that is void by now, because its owner has ended, is to be counted by the queue, and nothing else.
      guard !delivery.isVoid else { return submit }
      hasTurn = turn == nil && passers == 0
      if hasTurn { turn = delivery } else { waiting.append(delivery) }
      return submit
    }
    if hasTurn { delivery.turnHasCome() }
    submit?(delivery)
  }

  private func deliver(_ delivery: Delivery) {
    let begin = {
      self.lock.withLock {
        delivery.hasBegun = true
        return delivery.notification.take()
      }
    }
    // Which goes before the next one has its turn.
    if let notification = begin() { delivery.observation.deliver(notification) }
    passOn(from: delivery, isVoid: false)
  }

  /// The delivery finishes. More than once, and also for one that has been delivered.
  private func drop(_ delivery: Delivery) {
    let (hasBegun, dropped) = lock.withLock { (delivery.hasBegun, delivery.hasBegun ? nil : delivery.notification.take()) }
    if hasBegun { return }
    if let dropped { DeferredReleases.add(consume dropped) }
    passOn(from: delivery, isVoid: true)
  }

  private func passOn(from delivery: Delivery, isVoid: Bool) {
    var next = lock.withLock { () -> Delivery? in
      guard turn === delivery else { return nil }
      turn = nil
      if isVoid, passers > 0 { return nil }
      passers += 1
      return takeTurn()
    }
    while let delivery = next {
      delivery.turnHasCome()
      next = lock.withLock { takeTurn() }
    }
  }

  /// Under the lock, by one of the passers.
  /// - Returns: nil if it is to leave.
  private func takeTurn() -> Delivery? {
    skipVoid()
    guard turn == nil, front < waiting.count else {
      passers -= 1
      return nil
    }
    turn = waiting[front]
    front += 1
    return turn
  }

  /// What is void has no notification any more: nothing of the user's goes with it.
  private func skipVoid() {
    while front < waiting.count, waiting[front].isVoid { front += 1 }
    guard front > 32, front * 2 > waiting.count else { return }
    waiting.removeFirst(front)
    front = 0
  }

  /// What is left of a line, to be released.
  struct Remains {
    fileprivate var notifications: [Notification] = []
    fileprivate var submit: Submit?
    /// To be cancelled, so that the queue lets go of them.
    var deliveries: [OwnedOperation] = []
  }

  /// The observation is over.
  func close() -> Remains {
    lock.withLock {
      var deliveries = Array(waiting[front...])
      if let turn = turn.take(), !turn.hasBegun { deliveries.append(turn) }
      (waiting, front) = ([], 0)
      let notifications = deliveries.compactMap { $0.notification.take() }
      return Remains(notifications: notifications, submit: submit.take(), deliveries: deliveries)
    }
  }

  // MARK: For tests

  /// How many wait, or have the turn.
  var count: Int { lock.withLock { waiting.count - front + (turn == nil ? 0 : 1) } }
}
