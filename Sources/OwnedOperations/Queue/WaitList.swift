import Dispatch

/// Somebody who waits for a queue's or an owner's work to be finished.
enum Waiter: Sendable {
  case thread(DispatchSemaphore)
  case task(CheckedContinuation<Void, Never>)

  func resume() {
    switch self {
    case .thread(let semaphore): semaphore.signal()
    case .task(let continuation): continuation.resume()
    }
  }
}

/// Those who wait for a queue or for an owner's work in it. Guarded by the queue's lock.
///
/// Work of the queue may itself wait for the queue. It can't wait for its own end, so a wait is over when nothing is left but work that waits
/// for the same thing, or, if that leads nowhere, but work that waits for anything here.
struct WaitList {
  private struct Entry {
    let waiter: Waiter
    /// Nil for everything in the queue.
    let lifetime: OwnerLifetime?
    /// The wait is made by work of the queue, and of this owner, or of none.
    let inside: OwnerLifetime??

    /// Whether it is made by work that a wait for the owner, or with nil for the queue, would have to wait for.
    func isInside(_ target: OwnerLifetime?) -> Bool {
      guard let inside else { return false }
      return target == nil || inside === target
    }
  }

  private var entries: [Entry] = []
  private(set) var hasOwners = false

  var isEmpty: Bool { entries.isEmpty }
  var count: Int { entries.count }

  mutating func insert(_ waiter: Waiter, for lifetime: OwnerLifetime?, inside: OwnerLifetime??) {
    entries.append(Entry(waiter: waiter, lifetime: lifetime, inside: inside))
    if lifetime != nil { hasOwners = true }
  }

  /// Whether any of those who wait for an owner has no more left to wait for than there are waits, which is the least that it takes. Linear in the waits.
  func mayBeDue(unfinished: (OwnerLifetime) -> Int) -> Bool {
    entries.contains { entry in entry.lifetime.map { unfinished($0) <= entries.count } ?? false }
  }

  /// Takes those out whose wait is over.
  /// - Parameter unfinished: how much work of the owner, or with nil of the queue, is unfinished.
  mutating func takeDue(unfinished: (OwnerLifetime?) -> Int) -> [Waiter] {
    let due = takeThose { entry, entries in
      let left = unfinished(entry.lifetime)
      guard left > 0, entry.isInside(entry.lifetime), left <= entries.count else { return left == 0 }
      return left <= entries.count { $0.isInside(entry.lifetime) && $0.lifetime === entry.lifetime }
    }
    guard due.isEmpty else { return due }
    // Waits for different things may stand in a circle.
    return takeThose { entry, entries in
      let left = unfinished(entry.lifetime)
      return entry.isInside(entry.lifetime) && left <= entries.count && left <= entries.count { $0.isInside(entry.lifetime) }
    }
  }

  private mutating func takeThose(_ isDue: (Entry, [Entry]) -> Bool) -> [Waiter] {
    var due: [Waiter] = []
    var rest: [Entry] = []
    for entry in entries {
      if isDue(entry, entries) { due.append(entry.waiter) } else { rest.append(entry) }
    }
    guard !due.isEmpty else { return [] }
    entries = rest
    hasOwners = entries.contains { $0.lifetime != nil }
    return due
  }
}
