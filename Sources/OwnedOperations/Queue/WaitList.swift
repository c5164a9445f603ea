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
/// for the same thing.
struct WaitList {
  private struct Entry {
    let waiter: Waiter
    /// Nil for everything in the queue.
    let lifetime: OwnerLifetime?
    /// Whether the wait is made by work that it would have to wait for.
    let isInside: Bool
  }

  private var entries: [Entry] = []
  private(set) var hasOwners = false

  var isEmpty: Bool { entries.isEmpty }

  mutating func insert(_ waiter: Waiter, for lifetime: OwnerLifetime?, isInside: Bool) {
    entries.append(Entry(waiter: waiter, lifetime: lifetime, isInside: isInside))
    if lifetime != nil { hasOwners = true }
  }

  /// Takes those out whose wait is over.
  /// - Parameter unfinished: how much work of the owner, or with nil of the queue, is unfinished.
  mutating func takeDue(unfinished: (OwnerLifetime?) -> Int) -> [Waiter] {
    var due: [Waiter] = []
    var rest: [Entry] = []
    for entry in entries {
      let left = unfinished(entry.lifetime)
      let isDue =
        left == 0 || entry.isInside && left <= entries.count && left <= entries.count { $0.isInside && $0.lifetime === entry.lifetime }
      if isDue { due.append(entry.waiter) } else { rest.append(entry) }
    }
    guard !due.isEmpty else { return [] }
    entries = rest
    hasOwners = entries.contains { $0.lifetime != nil }
    return due
  }
}
