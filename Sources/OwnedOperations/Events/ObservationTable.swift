import Foundation
import Synchronization

/// The observations of one center, and what Foundation knows of them.
///
/// ## Protocol
///
/// Everything is guarded by the lock of `entries`, under which nothing of the user's is called or released, and no call to the center is
/// made.
///
/// *Who keeps whom.* The center keeps its blocks, a block this table and its name's entry, the table the entries, an entry its
/// observations and its token. Nobody here keeps the center, the owners or the observed objects. A token may keep its block, in a reference
/// cycle: entry, token, block, entry. `unregister` breaks it, also at the center's end, of which the table is told by a hook. The
/// observations are over then.
///
/// *Who hears a post.* For each name there is at most one registration with the center, for any object. One more, the catch-all, is for all
/// names, if anybody observes those. One of them is responsible for a post and calls all that observe it, in one order: higher level first,
/// then the earlier registration. The others keep still.
///
/// - A name's entry has a registration of its own, or the catch-all hears for it. Which of the two never changes while the entry stands.
/// - A name's registration is responsible for posts of its name. The catch-all is for all names that have none.
/// - An entry with a registration is installed, or taken away, only while nobody observes all names.
/// - An entry without one is made while somebody does. It keeps the catch-all, also when that somebody has gone, until it is empty.
/// - So between the registration of an observation and its end, the responsible registration is one and the same. Any post that lies in
///   between finds it, and it alone: switching neither loses nor doubles a post.
/// - A registration is made with the center first, and installed in the hold of the lock that inserts the first observation. Until then,
///   and once it is no longer installed, its block does nothing.
/// - An entry that empties while somebody observes all names stays (`lingering`) until nobody does.
///
/// *Who is called.* A post takes the arrays as they are, under the lock, and calls outside. Observations made meanwhile are not in them;
/// ones that end meanwhile say so themselves (`OwnedObservation`).
///
/// *What is left behind.* An observation that is over stays in its array until the array is swept. That happens when half of the array is
/// over, or all of the entry. An entry without observations goes, and its registration with it.
final class ObservationTable: Sendable {
  private weak let center: (any ObservableCenter)?
  /// The center's address, no more: it may have gone.
  private let centerIdentity: Borrowed<AnyObject>
  private let entries = Locked(Entries())
  /// Set before the first observation of an object is inserted. Posts need not look at their object before.
  private let observesObjects = Atomic<Bool>(false)

  /// Written once, by whoever made the table.
  private let centerEnd = Locked<OwnerHook?>(nil)

  init(_ center: some ObservableCenter) {
    self.center = center
    centerIdentity = Borrowed(center as AnyObject)
  }

  /// Once, when it has become the center's.
  func awaitCenterEnd() {
    guard let center else { return }
    let hook = OwnerLifetime.ofObject(center).onEnd { [weak self] _ in self?.endAll() }
    centerEnd.withLock { $0 = hook }
  }

  deinit {
    ObservationTables.remove(self, centerIdentity.address)
    centerEnd.withLock { $0 }?.cancel()
    // The center has gone, or nothing is left.
    endAll()
  }

  private func endAll() {
    for observation in observations(in: Selection()) { observation.end(inBackground: true) }
  }

  func isOf(_ other: some ObservableCenter) -> Bool { center === other }

  /// - Parameter center: of this table.
  func insert(_ observation: OwnedObservation, at center: some ObservableCenter) {
    if observation.objectAddress != nil { observesObjects.store(true, ordering: .relaxed) }
    var spare: ObservedName?
    while !entries.withLock({ $0.insert(observation, of: self, &spare) }) {
      spare = ObservedName(observation.name, registeredAt: center) { [self] in heard($0, by: $1) }
    }
    // Another thread was first.
    spare?.unregister(from: center)
  }

  /// Outside locks, on the thread that posts.
  private func heard(_ notification: Notification, by entry: ObservedName) {
    let object = observesObjects.load(ordering: .relaxed) ? Self.address(of: notification.object) : nil
    let audience = entries.withLock { $0.audience(of: notification.name, object, heardBy: entry) }
    audience.hear(notification)
  }

  /// Nil for what is no object.
  private static func address(of object: Any?) -> UnsafeMutableRawPointer? {
    guard let object, type(of: object) is AnyClass else { return nil }
    return Borrowed(object as AnyObject).address
  }

  /// The observation, which is in the table, is over.
  func remove(_ observation: OwnedObservation, inBackground: Bool) {
    var swept: [[OwnedObservation]] = []  // what is in them goes outside the lock
    let unregistered = entries.withLock { $0.remove(observation, &swept) }
    guard !unregistered.isEmpty else { return }
    // This may be the last reference to the center, and to what its blocks have captured. Foundation lets go of a block under a lock of its
    // own: the table, which is captured there, must not go with it.
    let unregister: @Sendable () -> Void = { [self, center] in
      withExtendedLifetime(self) { for entry in unregistered { entry.unregister(from: center) } }
    }
    if inBackground { DeferredCalls.add(unregister) } else { unregister() }
  }

  /// Which observations are meant by a call.
  struct Selection {
    var lifetime: OwnerLifetime?
    var object: UnsafeMutableRawPointer?
    var name: Notification.Name?
    var level: ObserverLevel?

    func includes(_ observation: OwnedObservation) -> Bool {
      if let lifetime, observation.lifetime !== lifetime { return false }
      if let object, observation.objectAddress != object { return false }
      if let level, observation.level != level { return false }
      return true
    }
  }

  /// Linear in the center's observations, or in those of the name or the object if one is given.
  func observations(in selection: Selection) -> [OwnedObservation] { entries.withLock { $0.observations(in: selection) } }

  /// For tests. Observations that are there or not yet swept, and registrations with the center.
  var counts: (observations: Int, registrations: Int) { entries.withLock { $0.counts } }
}

/// What is observed of a center: what the table's lock guards.
private struct Entries {
  private var names: [Notification.Name: ObservedName] = [:]
  private var allNames: ObservedName?
  /// Entries without a registration of their own.
  private var heardByCatchAll = 0
  private var lingering: [ObservedName] = []
  private var nextNumber: UInt64 = 0

  // MARK: Inserting

  /// - Parameter spare: a registration that may be installed; nil once it is.
  /// - Returns: false if one is wanted.
  mutating func insert(_ observation: OwnedObservation, of table: ObservationTable, _ spare: inout ObservedName?) -> Bool {
    guard let entry = entry(of: observation.name, &spare) else { return false }
    observation.registration.value.number = nextNumber
    observation.registration.value.table = table
    nextNumber += 1
    entry.observed.value.insert(observation)
    return true
  }

  private mutating func entry(of name: Notification.Name?, _ spare: inout ObservedName?) -> ObservedName? {
    if let known = name.map({ names[$0] }) ?? allNames { return known }
    let entry: ObservedName
    if let name, isObservingAllNames {
      entry = ObservedName(name)
      heardByCatchAll += 1
    } else {
      guard let new = spare else { return nil }
      spare = nil
      entry = new
    }
    entry.observed.value.isInstalled = true
    if let name { names[name] = entry } else { allNames = entry }
    return entry
  }

  private var isObservingAllNames: Bool { allNames.map { $0.observed.value.living > 0 } ?? false }

  // MARK: Posts

  func audience(of name: Notification.Name, _ object: UnsafeMutableRawPointer?, heardBy entry: ObservedName) -> Audience {
    var audience = Audience()
    guard entry.observed.value.isInstalled else { return audience }
    if entry !== allNames {
      audience.add(entry, object)
    } else if let named = names[name] {
      if named.isRegistered, !Mutation.postIsHeardTwice.isOn { return audience }
      audience.add(named, object)
    }
    if let allNames { audience.add(allNames, object) }
    return audience
  }

  // MARK: Removing

  /// - Parameter swept: gets what is to be released.
  /// - Returns: entries that are not installed any more, and are to be unregistered.
  mutating func remove(_ observation: OwnedObservation, _ swept: inout [[OwnedObservation]]) -> [ObservedName] {
    guard let entry = observation.name.map({ names[$0] }) ?? allNames else { return [] }
    entry.observed.value.remove(observation, &swept)
    return entry.observed.value.living == 0 ? settle(entry) : []
  }

  /// An entry has become empty.
  private mutating func settle(_ entry: ObservedName) -> [ObservedName] {
    guard entry !== allNames, isObservingAllNames, entry.isRegistered else {
      if entry !== allNames { take(entry) }
      var taken = entry === allNames ? [] : [entry]
      if !isObservingAllNames { taken += takeWhatLingers() }
      return taken.filter(\.isRegistered)
    }
    if !entry.observed.value.isLingering { lingering.append(entry) }
    entry.observed.value.isLingering = true
    return []
  }

  /// Nobody observes all names.
  private mutating func takeWhatLingers() -> [ObservedName] {
    var taken: [ObservedName] = []
    for entry in lingering {
      entry.observed.value.isLingering = false
      guard entry.observed.value.living == 0 else { continue }
      take(entry)
      taken.append(entry)
    }
    lingering = []
    if heardByCatchAll == 0, let catchAll = allNames {
      catchAll.observed.value.isInstalled = false
      allNames = nil
      taken.append(catchAll)
    }
    return taken
  }

  private mutating func take(_ entry: ObservedName) {
    guard entry.observed.value.isInstalled, let name = entry.name else { return }
    entry.observed.value.isInstalled = false
    names[name] = nil
    if !entry.isRegistered { heardByCatchAll -= 1 }
  }

  // MARK: Looking

  private var all: [ObservedName] { Array(names.values) + (allNames.map { [$0] } ?? []) }

  func observations(in selection: ObservationTable.Selection) -> [OwnedObservation] {
    var found: [OwnedObservation] = []
    let entries = selection.name.map { name in names[name].map { [$0] } ?? [] } ?? all
    for entry in entries { entry.observed.value.visit(selection.object) { if selection.includes($0) { found.append($0) } } }
    return found
  }

  var counts: (observations: Int, registrations: Int) {
    var counts = (observations: 0, registrations: 0)
    for entry in all {
      entry.observed.value.visit { _ in counts.observations += 1 }
      if entry.isRegistered { counts.registrations += 1 }
    }
    return counts
  }
}

/// Finds the table of a center by its address.
///
/// A table is known unretained, and takes itself out in its deinit. In between it may be found, but can't be retained any more; then a new
/// one takes its place. So it does if it is of a center that has gone, whose address the new one has got.
enum ObservationTables {
  private static let tables = Locked(PointerMap<UnretainedReference<ObservationTable>>())

  static func table(of center: some ObservableCenter) -> ObservationTable {
    if let known = existing(center) { return known }
    let new = ObservationTable(center)
    var former: ObservationTable?  // goes outside the lock
    let table = tables.withLock { tables in
      former = tables[center]?.retained()
      if let former, former.isOf(center) { return former }
      tables[center] = UnretainedReference(new)
      return new
    }
    if table === new { table.awaitCenterEnd() }
    withExtendedLifetime((former, new)) {}
    return table
  }

  /// Nil if nobody observes.
  static func existing(_ center: some ObservableCenter) -> ObservationTable? {
    let known = tables.withLock { $0[center]?.retained() }
    return known.flatMap { $0.isOf(center) ? $0 : nil }
  }

  /// In the table's deinit.
  static func remove(_ table: ObservationTable, _ address: UnsafeMutableRawPointer) {
    tables.withLock { tables in
      // Unless another has taken its place.
      if tables[address]?.refers(to: table) ?? false { tables[address] = nil }
    }
  }
}
