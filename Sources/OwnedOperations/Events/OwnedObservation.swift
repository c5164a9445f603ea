import Foundation
import Synchronization

/// An observer of notifications that leaves by itself: with its owner, or with the object that it observes, whichever goes first. Made by
/// `NotificationCenter.observe`.
///
/// It need not be kept: the center keeps it. Keep it to be able to call ``invalidate()``.
public final class OwnedObservation: LifetimeMember {
  // Protocol
  //
  // An observation is valid, then over. `isOver` goes from false to true, once.
  //
  // - *One decision for each call of the handler.* It is asked last, right before the handler begins. It is three acquiring loads, in this
  //   order: `isOver`, the observed object's lifetime, the owner's lifetime (`isValid`).
  // - An end stores before it returns: `invalidate` and `removeObservers` in `isOver`, the owner's end in its lifetime's word. So a
  //   decision that comes after sees it, and what it let through had its start under way before.
  // - Nobody waits for a handler that runs. So all of these may be called from inside one.
  // - Whoever turns `isOver` cleans up: takes `handler` out, leaves both lifetimes, leaves the table.
  // - `handler` has a lock. A delivery takes a reference under it and calls outside: a handler that is taken out meanwhile goes when the
  //   call has returned.
  // - What was captured is released outside locks. `invalidate` releases it on its own thread; the end of an owner or an observed object
  //   does so in the background.
  // - The owner is known by its hold, which doesn't keep it. The observed object is known by its address. An address that is another
  //   object's by now does no harm: the first object's lifetime has ended.
  // - The observed object's lifetime ends with its deinit hooks, before its deinit body, whether or not it has a token.
  // - The table inserts an observation before this joins the lifetimes. An end in between is seen by the join, which fails.

  static let memberKind: MemberKind = MemberKind(of: OwnedObservation.self)

  let lifetime: OwnerLifetime
  let name: Notification.Name?
  let level: ObserverLevel
  /// Nil for notifications of any object. An address, no more: the object may have gone.
  private let objectIdentity: Borrowed<AnyObject>?
  var objectAddress: UnsafeMutableRawPointer? { objectIdentity?.address }
  /// Written by the table, under its lock, before the observation is in it.
  let registration = SharedCell(Registration())

  struct Registration {
    var number: UInt64 = 0
    weak var table: ObservationTable?
  }

  private let place = SharedCell(MemberList.notListed)  // guarded by the lock of `lifetime`
  private let isOver = Atomic<Bool>(false)
  private let handler: Locked<ObservationHandler?>
  /// Written before the observation is shared, and no constant only because what it calls refers to the observation.
  private let objectEnd = SharedCell<LifetimeEndCall?>(nil)

  init(
    _ name: Notification.Name?, _ object: AnyObject?, _ lifetime: OwnerLifetime, _ level: ObserverLevel, _ handler: ObservationHandler
  ) {
    self.name = name
    self.lifetime = lifetime
    self.level = level
    self.handler = Locked(handler)
    objectIdentity = object.map { Borrowed($0) }
    guard let object else { return }
    objectEnd.value = LifetimeEndCall(OwnerLifetime.ofObject(object)) { [weak self] in self?.end(inBackground: true) }
  }

  deinit { lifetime.leave(self) }

  var memberIndex: Int32 {
    get { place.value }
    set { place.value = newValue }
  }

  // MARK: State

  /// False once the owner or the observed object has ended, the observation was removed, or its center has gone. No handler begins then.
  public var isValid: Bool {
    if isOver.load(ordering: .acquiring) { return false }
    if let objectEnd = objectEnd.value, !objectEnd.lifetime.isAlive { return false }
    return lifetime.isAlive || Mutation.handlerSkipsTheLifetime.isOn
  }

  /// For lists, under the lock of the table.
  var isListed: Bool { !isOver.load(ordering: .relaxed) }

  /// Ends the observation, and releases its handler. When this returns, the handler doesn't begin any more, on any thread. A call that is
  /// under way goes on, and is not waited for. Deliveries that wait for their turn on a queue are dropped. Any thread, also from inside a
  /// handler.
  /// - Complexity: amortised constant.
  public func invalidate() { end(inBackground: false) }

  /// - Parameter inBackground: the thread must not run what is the user's, such as deinits of what was captured.
  func end(inBackground: Bool) {
    guard !isOver.exchange(true, ordering: .acquiringAndReleasing) else { return }
    var former = handler.withLock { $0.take() }
    lifetime.leave(self)
    objectEnd.value?.leave()
    registration.value.table?.remove(self, inBackground: inBackground)
    let remains = former?.line?.close(inBackground: inBackground)
    if inBackground, let former = former.take() { DeferredReleases.add(consume former) }
    withExtendedLifetime(remains) {}
  }

  func lifetimeDidEnd() { end(inBackground: true) }

  /// Has the observation end with its owner and its object. Once, when the table has it.
  func joinLifetimes() {
    let hasJoined = lifetime.join(self) || Mutation.observationMissesTheEnd.isOn
    guard hasJoined, objectEnd.value?.join() ?? true else { return end(inBackground: false) }
    // Ended by somebody before it had joined.
    if isOver.load(ordering: .acquiring) {
      lifetime.leave(self)
      objectEnd.value?.leave()
    }
  }

  // MARK: Deliveries

  /// Something was posted that this observes. On the thread that posts, outside locks.
  func hear(_ notification: Notification) {
    guard let handler = handler.withLock({ $0 }) else { return }
    guard let line = handler.line else { return call(handler, notification) }
    // Whoever posts has handed it to observers on other threads.
    nonisolated(unsafe) let notification = notification
    line.add { self.deliver(notification) }
  }

  /// On the queue of the deliveries.
  /// - Returns: what was held meanwhile. If there is no other reference to it by now, its deinits are no part of the delivery.
  private func deliver(_ notification: Notification) -> AnyObject? {
    guard let handler = handler.withLock({ $0 }) else { return nil }
    var owner: AnyObject?
    let isThere = handler.call(notification, holding: &owner) { isValid }
    if !isThere { end(inBackground: true) }
    return DeliveryRemains(handler, owner)
  }

  private func call(_ handler: ObservationHandler, _ notification: Notification) {
    let isThere = handler.call(notification) { isValid }
    // One of several that share a token: its lifetime lives on.
    if !isThere { end(inBackground: true) }
  }

  private final class DeliveryRemains {
    private let handler: ObservationHandler
    private let owner: AnyObject?
    init(_ handler: ObservationHandler, _ owner: AnyObject?) { (self.handler, self.owner) = (handler, owner) }
  }

  /// The order in which observations of one notification are called.
  static func comesFirst(_ left: OwnedObservation, _ right: OwnedObservation) -> Bool {
    if left.level != right.level { return left.level > right.level }
    return left.registration.value.number < right.registration.value.number
  }
}

extension OwnedObservation: CustomStringConvertible {
  /// For example `observation of "saved" by owner#42 (over)`.
  public var description: String {
    let what = name.map { "\"\($0.rawValue)\"" } ?? "all names"
    return "observation of \(what) by \(lifetime.id)\(isValid ? "" : " (over)")"
  }
}
