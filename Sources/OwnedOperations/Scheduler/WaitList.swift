/// Somebody who waits for a queue's or an owner's work to be finished.
enum Waiter: Sendable {
  case thread(WaitingThread)
  case task(SuspendedTask<Void, Never>)
  case drain(DrainOutcome)
}

/// Those who wait for a queue or for an owner's work in it. Guarded by the queue's lock.
///
/// Work of the queue may itself wait for the queue, and can't wait for its own end. These rules say when a wait is over:
///
/// 1. Nothing of what it waits for is unfinished.
/// 2. It is made by work that it would have to wait for. So are the waits for the same of all that is unfinished of it.
/// 3. It is made by work of the queue, and all that is unfinished in the queue waits: nobody else could end it.
///
/// Each owner that is awaited has a count of its unfinished work, kept by its owner queues. So a wait costs the same, however many there
/// are.
struct WaitList {
  /// The work of the queue that makes a wait.
  struct Inside {
    /// Of its owner, if it has one.
    let lifetime: OwnerLifetime?
    /// If it is an operation, which may make several waits at once, in a task, and may be finished from elsewhere while it waits.
    var operation: ObjectIdentifier?
  }

  struct Entry {
    let waiter: Waiter
    fileprivate var inside: Inside?

    /// Whether it is made by work that a wait for the owner, or with nil for the queue, would have to wait for.
    fileprivate func isInside(_ target: OwnerLifetime?) -> Bool {
      guard let inside else { return false }
      return target == nil || inside.lifetime === target
    }
  }

  /// How much work waits, however often each.
  fileprivate struct WaitingWork {
    private var threads = 0
    private var tasks: [ObjectIdentifier: Int] = [:]

    var count: Int { threads + tasks.count }
    func contains(_ operation: ObjectIdentifier) -> Bool { !tasks.isEmpty && tasks[operation] != nil }

    mutating func insert(_ inside: Inside) {
      if let operation = inside.operation { tasks[operation, default: 0] += 1 } else { threads += 1 }
    }

    mutating func remove(_ inside: Inside) {
      guard let operation = inside.operation else {
        threads -= 1
        return
      }
      guard let waits = tasks[operation] else { return }
      tasks[operation] = waits == 1 ? nil : waits - 1
    }

    mutating func removeAll(of operation: ObjectIdentifier) { tasks[operation] = nil }
  }

  /// Waits for one target, the queue or an owner.
  fileprivate struct Group {
    var entries: [Entry] = []
    /// Of the target.
    var waitingWork = WaitingWork()

    mutating func insert(_ entry: Entry, target: OwnerLifetime?) {
      entries.append(entry)
      if let inside = entry.inside, entry.isInside(target) { waitingWork.insert(inside) }
    }

    func isDue(_ unfinished: Int) -> Bool {
      unfinished == 0 ? !entries.isEmpty : waitingWork.count > 0 && unfinished <= waitingWork.count
    }

    mutating func takeAll() -> [Entry] {
      var taken: [Entry] = []
      swap(&taken, &entries)
      waitingWork = WaitingWork()
      return taken
    }

    mutating func takeThose(_ isTaken: (Entry) -> Bool, target: OwnerLifetime?) -> [Entry] {
      let taken = entries.filter(isTaken)
      entries.removeAll(where: isTaken)
      for entry in taken { if let inside = entry.inside, entry.isInside(target) { waitingWork.remove(inside) } }
      return taken
    }

    mutating func leave(_ operation: ObjectIdentifier) {
      for index in entries.indices where entries[index].inside?.operation == operation { entries[index].inside = nil }
      waitingWork.removeAll(of: operation)
    }
  }

  private var queueWaits = Group()
  private var owners: [ObjectIdentifier: OwnerWait] = [:]
  private var waitingWork = WaitingWork()
  private(set) var count = 0
  private let due = OwnerWait.DueList()

  var isEmpty: Bool { count == 0 }
  var hasOwners: Bool { !owners.isEmpty }

  mutating func insertForQueue(_ waiter: Waiter, inside: Inside?) {
    note(inside)
    queueWaits.insert(Entry(waiter: waiter, inside: inside), target: nil)
  }

  /// - Parameter unfinished: how much work of the owner is unfinished, if the owner wasn't awaited before.
  /// - Returns: what its owner queues are to keep counting.
  mutating func insert(_ waiter: Waiter, for lifetime: OwnerLifetime, inside: Inside?, unfinished: Int) -> OwnerWait {
    note(inside)
    let wait = self[lifetime] ?? OwnerWait(lifetime, unfinished: unfinished, due: due)
    owners[ObjectIdentifier(lifetime)] = wait
    wait.group.insert(Entry(waiter: waiter, inside: inside), target: lifetime)
    wait.listIfDue()
    return wait
  }

  /// A drain gives up. Linear in the waits for the owner.
  mutating func remove(_ outcome: DrainOutcome, for lifetime: OwnerLifetime) {
    guard let wait = self[lifetime] else { return }
    let given = wait.group.takeThose({ if case .drain(let other) = $0.waiter { other === outcome } else { false } }, target: lifetime)
    forget(given)
    forgetIfEmpty(wait)
  }

  private mutating func note(_ inside: Inside?) {
    count += 1
    if let inside { waitingWork.insert(inside) }
  }

  /// The operation has finished. What waits in tasks that it left behind is no work of the queue any more. Linear in the waits if there are
  /// such.
  mutating func leave(_ operation: ObjectIdentifier) {
    guard waitingWork.contains(operation) else { return }
    waitingWork.removeAll(of: operation)
    queueWaits.leave(operation)
    for wait in owners.values { wait.group.leave(operation) }
  }

  /// Nil if nobody waits for the owner.
  subscript(lifetime: OwnerLifetime) -> OwnerWait? { owners.isEmpty ? nil : owners[ObjectIdentifier(lifetime)] }

  /// Whether `takeDue` would find somebody.
  /// - Parameter unfinished: how much of the queue's work is unfinished.
  func hasDue(unfinished: Int) -> Bool {
    count > 0 && (!due.waits.isEmpty || queueWaits.isDue(unfinished) || unfinished <= waitingWork.count && waitingWork.count > 0)
  }

  /// Takes those out whose wait is over.
  mutating func takeDue(unfinished: Int) -> [Entry] {
    var over: [Entry] = []
    if queueWaits.isDue(unfinished) {
      over = unfinished == 0 ? queueWaits.takeAll() : queueWaits.takeThose({ $0.isInside(nil) }, target: nil)
    }
    for wait in due.takeAll() where wait.group.isDue(wait.unfinished) {
      over += wait.unfinished == 0 ? wait.group.takeAll() : wait.group.takeThose({ $0.isInside(wait.lifetime) }, target: wait.lifetime)
      forgetIfEmpty(wait)
    }
    forget(over)
    // Work whose waits are over goes on. Other work goes nowhere, however many others have waited outside.
    if waitingWork.count > 0, unfinished <= waitingWork.count {
      var rest = queueWaits.takeThose({ $0.inside != nil }, target: nil)
      for wait in Array(owners.values) {
        rest += wait.group.takeThose({ $0.inside != nil }, target: wait.lifetime)
        forgetIfEmpty(wait)
      }
      forget(rest)
      over += rest
    }
    // Who has been resumed may let go of all others.
    for index in over.indices { over[index].inside = nil }
    return over
  }

  private mutating func forget(_ over: [Entry]) {
    count -= over.count
    guard waitingWork.count > 0 else { return }
    for case let inside? in over.lazy.map(\.inside) { waitingWork.remove(inside) }
  }

  private mutating func forgetIfEmpty(_ wait: OwnerWait) {
    if wait.group.entries.isEmpty { owners[ObjectIdentifier(wait.lifetime)] = nil }
  }
}

/// The waits for one owner, and how much work of it is unfinished. Guarded by the queue's lock.
///
/// Its owner queues hold it, in every phase, as long as somebody waits, and tell it of each change.
final class OwnerWait {
  fileprivate final class DueList {
    @exclusivity(unchecked) var waits: [OwnerWait] = []

    func takeAll() -> [OwnerWait] {
      guard !waits.isEmpty else { return [] }
      defer { waits = [] }
      for wait in waits { wait.isListed = false }
      return waits
    }
  }

  let lifetime: OwnerLifetime
  private(set) var unfinished: Int
  fileprivate var group = WaitList.Group()
  private let due: DueList
  private var isListed = false

  fileprivate init(_ lifetime: OwnerLifetime, unfinished: Int, due: DueList) {
    self.lifetime = lifetime
    self.unfinished = unfinished
    self.due = due
  }

  /// Nobody waits any more.
  var isOver: Bool { group.entries.isEmpty }

  func change(by count: Int) {
    unfinished += count
    if count < 0 { listIfDue() }
  }

  fileprivate func listIfDue() {
    guard !isListed, group.isDue(unfinished) else { return }
    isListed = true
    due.waits.append(self)
  }
}
