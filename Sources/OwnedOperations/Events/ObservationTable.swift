import Foundation
import Synchronization

/// The observations of one center, and what Foundation knows of them.
///
/// ## Protocol
///
/// Everything is guarded by `lock`, under which nothing of the user's is called or released, and no call to the center is made.
///
/// *Who keeps whom.* The center keeps its blocks, a block this table, the table the observations and the tokens. Nobody here keeps the
/// center, the owners or the observed objects. A token may keep its block, in a reference cycle. The center's end breaks the cycle; the
/// table is told of that end by a hook. The observations are over then.
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
final class ObservationTable: @unchecked Sendable {  // by the protocol above
  private weak var center: (any ObservableCenter)?  // written by the initialiser only
  /// The address of the center, which may have gone.
  private let address: UnsafeMutableRawPointer
  private let lock = Lock()
  private var names: [Notification.Name: ObservedName] = [:]
  private var allNames: ObservedName?
  /// Entries without a registration of their own.
  private var heardByCatchAll = 0
  private var lingering: [ObservedName] = []
  private var nextNumber: UInt64 = 0
  /// Set before the first observation of an object is inserted. Posts need not look at their object before.
  private let observesObjects = Atomic<Bool>(false)

  /// Written once, by whoever made the table; read in the deinit.
  private var centerEnd: OwnerHook?

  init(_ center: some ObservableCenter) {
    self.center = center
    address = Borrowed(center as AnyObject).address
  }

  /// Once, when it has become the center's.
  func awaitCenterEnd() {
    guard let center else { return }
    centerEnd = OwnerLifetime.ofObject(center).onEnd { [weak self] _ in self?.endAll() }
  }

  deinit {
    ObservationTables.remove(self, address)
    centerEnd?.cancel()
    // The center has gone, or nothing is left.
    endAll()
  }

  private func endAll() {
    for observation in observations(in: Selection()) { observation.end(inBackground: true) }
  }

  func isOf(_ other: some ObservableCenter) -> Bool { center === other }

  // MARK: Inserting

  /// - Parameter center: of this table.
  func insert(_ observation: OwnedObservation, at center: some ObservableCenter) {
    if observation.objectAddress != nil { observesObjects.store(true, ordering: .relaxed) }
    var spare: ObservedName?
    while !lock.withLock({ insertUnderLock(observation, &spare) }) {
      let new = ObservedName(observation.name)
      new.register(at: center) { [self] in heard($0, by: new) }
      spare = new
    }
    // Another thread was first.
    spare?.unregister(from: center)
  }

  /// - Parameter spare: a registration that may be installed; nil once it is.
  /// - Returns: false if one is wanted.
  private func insertUnderLock(_ observation: OwnedObservation, _ spare: inout ObservedName?) -> Bool {
    guard let entry = entry(of: observation.name, &spare) else { return false }
    observation.number = nextNumber
    observation.table = self
    nextNumber += 1
    entry.insert(observation)
    return true
  }

  private func entry(of name: Notification.Name?, _ spare: inout ObservedName?) -> ObservedName? {
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
    entry.isInstalled = true
    if let name { names[name] = entry } else { allNames = entry }
    return entry
  }

  private var isObservingAllNames: Bool { allNames.map { $0.living > 0 } ?? false }

  // MARK: Posts

  /// Outside locks, on the thread that posts.
  private func heard(_ notification: Notification, by entry: ObservedName) {
    let object = observesObjects.load(ordering: .relaxed) ? Self.address(of: notification.object) : nil
    let audience = lock.withLock { gather(of: notification.name, object, heardBy: entry) }
    audience.hear(notification)
  }

  private func gather(of name: Notification.Name, _ object: UnsafeMutableRawPointer?, heardBy entry: ObservedName) -> Audience {
    var audience = Audience()
    guard entry.isInstalled else { return audience }
    if entry !== allNames {
      audience.add(entry, object)
    } else if let named = names[name] {
      if named.isRegistered, !Mutation.postIsHeardTwice.isOn { return audience }
      audience.add(named, object)
    }
    if let allNames { audience.add(allNames, object) }
    return audience
  }

  /// Nil for what is no object.
  private static func address(of object: Any?) -> UnsafeMutableRawPointer? {
    guard let object, type(of: object) is AnyClass else { return nil }
    return Borrowed(object as AnyObject).address
  }

  // MARK: Removing

  /// The observation, which is in the table, is over.
  func remove(_ observation: OwnedObservation, inBackground: Bool) {
    var swept: [[OwnedObservation]] = []  // what is in them goes outside the lock
    let unregistered = lock.withLock { () -> [ObservedName] in
      guard let entry = observation.name.map({ names[$0] }) ?? allNames else { return [] }
      entry.remove(observation, &swept)
      return entry.living == 0 ? settle(entry) : []
    }
    guard !unregistered.isEmpty else { return }
    // This may be the last reference to the center, and to what its blocks have captured. Foundation lets go of a block under a lock of its
    // own: the table, which is captured there, must not go with it.
    let unregister: @Sendable () -> Void = { [self, center] in
      withExtendedLifetime(self) { for entry in unregistered { entry.unregister(from: center) } }
    }
    if inBackground { DeferredCalls.add(unregister) } else { unregister() }
  }

  /// An entry has become empty.
  /// - Returns: entries that are not installed any more.
  private func settle(_ entry: ObservedName) -> [ObservedName] {
    guard entry !== allNames, isObservingAllNames, entry.isRegistered else {
      if entry !== allNames { take(entry) }
      var taken = entry === allNames ? [] : [entry]
      if !isObservingAllNames { taken += takeWhatLingers() }
      return taken.filter(\.isRegistered)
    }
    if !entry.isLingering { lingering.append(entry) }
    entry.isLingering = true
    return []
  }

  /// Nobody observes all names.
  private func takeWhatLingers() -> [ObservedName] {
    var taken: [ObservedName] = []
    for entry in lingering {
      entry.isLingering = false
      guard entry.living == 0 else { continue }
      take(entry)
      taken.append(entry)
    }
    lingering = []
    if heardByCatchAll == 0, let catchAll = allNames {
      catchAll.isInstalled = false
      allNames = nil
      taken.append(catchAll)
    }
    return taken
  }

  private func take(_ entry: ObservedName) {
    guard entry.isInstalled, let name = entry.name else { return }
    entry.isInstalled = false
    names[name] = nil
    if !entry.isRegistered { heardByCatchAll -= 1 }
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
  func observations(in selection: Selection) -> [OwnedObservation] {
    lock.withLock {
      var found: [OwnedObservation] = []
      let entries = selection.name.map { name in names[name].map { [$0] } ?? [] } ?? Array(names.values) + (allNames.map { [$0] } ?? [])
      for entry in entries { entry.visit(selection.object) { if selection.includes($0) { found.append($0) } } }
      return found
    }
  }

  // MARK: For tests

  /// Observations that are there or not yet swept, and registrations with the center.
  var counts: (observations: Int, registrations: Int) {
    lock.withLock {
      var counts = (observations: 0, registrations: 0)
      for entry in Array(names.values) + (allNames.map { [$0] } ?? []) {
        entry.visit { _ in counts.observations += 1 }
        if entry.isRegistered { counts.registrations += 1 }
      }
      return counts
    }
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
