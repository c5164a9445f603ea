/// The permit of a worker, or of an asynchronous operation. Guarded by the queue's lock.
class Permit {
  /// It is with others.
  final var isYielded = false
  /// The owner whose permit was yielded, too. It keeps its owner queue while its work is unfinished.
  @Uncounted final var ownerQueue: OwnerQueue?
  /// The flow of the line that was yielded, too.
  final var flow: Flow?
  /// Where it stands in `ReturningList`.
  final fileprivate(set) var place: Int?
}

/// The permit of an asynchronous operation whose task waits, or has waited. Guarded by the queue's lock.
///
/// The task yields when `waits` becomes one. It regains the permit when `waits` becomes zero: the wait that ended last goes on only
/// then. Other parts of the task may go on without: one that has waited may be what the last one waits for. If a part begins to wait while
/// another one asks for the permit, that one goes on without, too.
final class TaskPermit: Permit {
  var waits = 0
}

/// Those whose wait is over and who need a permit to go on, in order. Guarded by the queue's lock.
///
/// A permit knows its place, counted from the first that there ever was: to leave takes constant time, whoever else is there.
struct ReturningList {
  private var entries: [(permit: Permit, waiter: Waiter)?] = []
  /// The place of the first entry. Those before it that have left are removed when they are half of all.
  private var base = 0
  private var start = 0
  private var count = 0
  /// The waiters of those who have turned out to need no permit.
  private var free: [Waiter] = []

  init() {}

  /// Whether nobody is there, also of those who are free to go on.
  var isEmpty: Bool { count == 0 && free.isEmpty }

  mutating func append(_ permit: Permit, _ waiter: Waiter) {
    permit.place = base + entries.count
    entries.append((permit, waiter))
    count += 1
  }

  /// - Complexity: linear in those before the first that fits.
  func first(where fits: (Permit) -> Bool) -> Permit? { count > 0 ? find(fits) : nil }

  /// Apart: room for an entry, whose size is known at run time only, would be made on the stack of each job that is added.
  @inline(never)
  private func find(_ fits: (Permit) -> Bool) -> Permit? {
    for entry in entries[start...] { if let permit = entry?.permit, fits(permit) { return permit } }
    return nil
  }

  func contains(where fits: (Permit) -> Bool) -> Bool { first(where: fits) != nil }

  mutating func remove(_ permit: Permit) -> Waiter? {
    guard let place = permit.place else { return nil }
    permit.place = nil
    let waiter = entries[place - base]?.waiter
    entries[place - base] = nil
    count -= 1
    while start < entries.count, entries[start] == nil { start += 1 }
    if start * 2 > entries.count {
      entries.removeFirst(start)
      base += start
      start = 0
    }
    return waiter
  }

  /// Whoever asks for the permit goes on without.
  /// - Returns: whether somebody does.
  mutating func free(_ permit: Permit) -> Bool {
    guard let waiter = remove(permit) else { return false }
    free.append(waiter)
    return true
  }

  mutating func takeFree() -> [Waiter] {
    defer { free = [] }
    return free
  }
}
