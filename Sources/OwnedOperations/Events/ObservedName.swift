import Foundation

/// What is observed of one name, or of all names: the observations, and the registration with the center.
final class ObservedName: Sendable {
  /// Nil for all names.
  let name: Notification.Name?
  /// Whether it has a registration of its own, which is made before the entry is shared.
  let isRegistered: Bool
  /// Guarded by the lock of the table.
  let observed = SharedCell(Observed())
  /// Foundation's, which may keep the block. Taken out when the table has taken the entry away, by whoever did.
  private let token = Locked<(any NSObjectProtocol)?>(nil)

  /// Heard by the catch-all.
  init(_ name: Notification.Name?) { (self.name, isRegistered) = (name, false) }

  /// For any object: to Foundation the observed object would be one more to keep.
  init(
    _ name: Notification.Name?, registeredAt center: some ObservableCenter,
    _ heard: @escaping @Sendable (Notification, ObservedName) -> Void
  ) {
    (self.name, isRegistered) = (name, true)
    let token = center.register(name) { [self] in heard($0, self) }
    self.token.withLock { $0 = token }
  }

  /// Once it isn't installed any more. Outside locks.
  /// - Parameter center: nil if it has gone.
  func unregister(from center: (any ObservableCenter)?) {
    guard let token = token.withLock({ $0.take() }) else { return }
    center?.unregister(token)
  }
}

/// The observations of one name, or of all names, by object. Guarded by the lock of the table.
struct Observed: ~Copyable {
  /// Whether the table knows the name's entry. The block of one that isn't does nothing.
  var isInstalled = false
  var isLingering = false
  /// Observations that are not over, or about to say so.
  private(set) var living = 0

  private let ofAnyObject = ObservationList()
  private var ofObjects = PointerMap<ObservationList>()

  mutating func insert(_ observation: OwnedObservation) {
    living += 1
    guard let address = observation.objectAddress else { return ofAnyObject.insert(observation) }
    let list = ofObjects[address] ?? ObservationList()
    if list.isEmpty { ofObjects[address] = list }
    list.insert(observation)
  }

  /// - Parameter swept: gets what is to be released.
  mutating func remove(_ observation: OwnedObservation, _ swept: inout [[OwnedObservation]]) {
    living -= 1
    guard let address = observation.objectAddress else { return ofAnyObject.noteOver(&swept) }
    guard let list = ofObjects[address] else { return }
    list.noteOver(&swept)
    if list.isEmpty { ofObjects[address] = nil }
  }

  /// Those of any object, and those of the one.
  func lists(of object: UnsafeMutableRawPointer?) -> ([OwnedObservation], [OwnedObservation]) {
    (ofAnyObject.observations, object.flatMap { ofObjects[$0] }?.observations ?? [])
  }

  /// - Parameter object: nil for all.
  func visit(_ object: UnsafeMutableRawPointer? = nil, _ body: (OwnedObservation) -> Void) {
    if let object {
      ofObjects[object]?.observations.forEach(body)
    } else {
      ofAnyObject.observations.forEach(body)
      ofObjects.visit { $0.observations.forEach(body) }
    }
  }
}

/// Observations in the order in which they are called. Guarded by the lock of its table.
///
/// One that is over stays until half of the list is. So an end costs amortised constant time, and the list is never much longer than what
/// is observed.
private final class ObservationList {
  private(set) var observations: [OwnedObservation] = []
  /// An estimate: some may have been swept before they were counted.
  private var over = 0

  var isEmpty: Bool { observations.isEmpty }

  /// Linear in the others of a lower level. Without any it belongs at the end, which takes constant time.
  func insert(_ observation: OwnedObservation) {
    var place = observations.count
    while place > 0, OwnedObservation.comesFirst(observation, observations[place - 1]) { place -= 1 }
    observations.insert(observation, at: place)
  }

  func noteOver(_ swept: inout [[OwnedObservation]]) {
    over += 1
    guard over * 2 >= observations.count else { return }
    over = 0
    swept.append(observations)
    observations = observations.filter(\.isListed)
  }
}

/// Those who are to hear of one post.
struct Audience {
  private var lists: ([OwnedObservation], [OwnedObservation], [OwnedObservation], [OwnedObservation]) = ([], [], [], [])
  private var count = 0

  /// Under the lock of the table.
  mutating func add(_ entry: ObservedName, _ object: UnsafeMutableRawPointer?) {
    let (ofAnyObject, ofObject) = entry.observed.value.lists(of: object)
    add(ofAnyObject)
    add(ofObject)
  }

  private mutating func add(_ list: [OwnedObservation]) {
    if list.isEmpty { return }
    switch count {
    case 0: lists.0 = list
    case 1: lists.1 = list
    case 2: lists.2 = list
    default: lists.3 = list
    }
    count += 1
  }

  /// Outside locks.
  func hear(_ notification: Notification) {
    if count > 1 { return hearInOrder(notification) }
    for observation in lists.0 { observation.hear(notification) }
  }

  /// Merges the lists, each of which is in order.
  private func hearInOrder(_ notification: Notification) {
    let lists = [lists.0, lists.1, lists.2, lists.3]
    var places = [0, 0, 0, 0]
    while true {
      var next: Int?
      for list in lists.indices where places[list] < lists[list].count {
        guard let best = next else {
          next = list
          continue
        }
        if OwnedObservation.comesFirst(lists[list][places[list]], lists[best][places[best]]) { next = list }
      }
      guard let next else { return }
      lists[next][places[next]].hear(notification)
      places[next] += 1
    }
  }
}
