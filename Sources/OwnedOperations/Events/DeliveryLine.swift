import Foundation

/// One observation's notifications on their way to a queue: each is a job there, and they are delivered one at a time, in the order of the
/// posts.
///
/// ## Protocol
///
/// All of it is guarded by `lock`; nothing of the user's is called or released under it.
///
/// - A delivery waits, has arrived (its job has begun), or is void (its job was cancelled). Deliveries stand in `waiting` in the order of
///   the posts; what is delivered, and what is void, leaves at the front.
/// - A job that begins marks its delivery as arrived. Unless `isRunning`, it becomes the one that runs: it delivers from the front for as
///   long as what stands there has arrived.
/// - A job that finds another one running returns. The one that runs comes to its delivery: `isRunning` is cleared in the hold of the lock
///   in which the front was seen not to have arrived.
/// - A job that is released without having begun (`Turn.deinit`) makes its delivery void. If what is at the front then has arrived, and
///   nobody runs, it gets a new job.
/// - `close` takes everything out, also the way to the queue: jobs that wait in a suspended queue keep the line, and must not keep the
///   queue. Later posts are dropped, and jobs find nothing.
final class DeliveryLine: @unchecked Sendable {  // by the protocol above
  /// Has the queue run the job, or release it.
  typealias Submit = @Sendable (_ job: @escaping @Sendable () -> Void) -> Void

  private let lock = Lock()
  /// Nil once it is closed.
  private var submit: Submit?
  private var waiting: [Delivery] = []
  private var front = 0
  private var isRunning = false

  init(_ submit: @escaping Submit) { self.submit = submit }

  fileprivate final class Delivery: @unchecked Sendable {  // guarded by the line's lock
    var notification: Notification?
    var hasArrived = false
    init(_ notification: Notification) { self.notification = notification }
    var isVoid: Bool { notification == nil }
  }

  /// The job of one delivery, or what is left of it.
  private final class Turn: @unchecked Sendable {  // `hasBegun` is written by the job, before the last reference goes
    private let line: DeliveryLine
    private let delivery: Delivery
    private let observation: OwnedObservation
    private var hasBegun = false

    init(_ line: DeliveryLine, _ delivery: Delivery, _ observation: OwnedObservation) {
      (self.line, self.delivery, self.observation) = (line, delivery, observation)
    }

    deinit { if !hasBegun { line.drop(delivery, of: observation) } }

    func begin() {
      hasBegun = true
      line.arrive(delivery, of: observation)
    }
  }

  /// On the thread that posts.
  func add(_ notification: Notification, for observation: OwnedObservation) {
    let delivery = Delivery(notification)
    let submit = lock.withLock {
      if self.submit != nil { waiting.append(delivery) }
      return self.submit
    }
    if let submit { send(delivery, observation, submit) }
  }

  private func send(_ delivery: Delivery, _ observation: OwnedObservation, _ submit: Submit) {
    let turn = Turn(self, delivery, observation)
    submit { turn.begin() }
  }

  private func arrive(_ delivery: Delivery, of observation: OwnedObservation) {
    let isFirst = lock.withLock {
      delivery.hasArrived = true
      defer { isRunning = true }
      return !isRunning
    }
    guard isFirst else { return }
    while let notification = lock.withLock({ takeArrived() }) { observation.deliver(notification) }
  }

  /// Under the lock. Nil if whoever runs is to leave.
  private func takeArrived() -> Notification? {
    skipVoid()
    guard let next = first, next.hasArrived else {
      isRunning = false
      return nil
    }
    front += 1
    return next.notification.take()
  }

  private func drop(_ delivery: Delivery, of observation: OwnedObservation) {
    var dropped: Notification?
    let next = lock.withLock { () -> (Delivery, Submit)? in
      dropped = delivery.notification.take()
      guard !isRunning, let submit else { return nil }
      skipVoid()
      guard let next = first, next.hasArrived else { return nil }
      next.hasArrived = false
      return (next, submit)
    }
    if let dropped = dropped.take() { DeferredReleases.add(consume dropped) }
    if let (delivery, submit) = next { send(delivery, observation, submit) }
  }

  /// What is left of a line, to be released.
  struct Remains {
    fileprivate var notifications: [Notification] = []
    fileprivate var submit: Submit?
  }

  /// The observation is over.
  func close() -> Remains {
    lock.withLock {
      let remains = Remains(notifications: waiting[front...].compactMap { $0.notification.take() }, submit: submit.take())
      (waiting, front) = ([], 0)
      return remains
    }
  }

  private var first: Delivery? { front < waiting.count ? waiting[front] : nil }

  /// What is void, and what has been delivered, has no notification any more: nothing of the user's goes with it.
  private func skipVoid() {
    while let first, first.isVoid { front += 1 }
    guard front > 32, front * 2 > waiting.count else { return }
    waiting.removeFirst(front)
    front = 0
  }

  // MARK: For tests

  var count: Int { lock.withLock { waiting.count - front } }
}
