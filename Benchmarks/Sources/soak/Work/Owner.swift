import Dispatch
import Foundation
import OwnedOperations

/// An owner, of one of the kinds that there are. While a caller has this, the owner is held.
enum Owner: Sendable {
  case token(TokenOwner)
  case object(PlainOwner)
  case bare(OwnerLifetime)

  var lifetime: OwnerLifetime {
    switch self {
    case .token(let owner): owner.lifetime
    case .object(let owner): OwnerLifetime.of(owner)
    case .bare(let lifetime): lifetime
    }
  }

  /// A job for each bit of the tally.
  func addJobs(_ indices: Range<Int>, of tally: Tally, to queue: CheckedQueue, _ priority: Operation.QueuePriority) {
    let target = queue.queue
    switch (self, queue.record.isSerial) {
    case (.token(let owner), false): for index in indices { target.async(owner: owner, priority: priority) { _ in tally.run(index) } }
    case (.token(let owner), true): for index in indices { target.async(owner: owner) { _ in tally.runSerially(index) } }
    case (.object(let owner), false): for index in indices { target.async(owner: owner, priority: priority) { _ in tally.run(index) } }
    case (.object(let owner), true): for index in indices { target.async(owner: owner) { _ in tally.runSerially(index) } }
    case (.bare(let lifetime), false): for index in indices { target.async(lifetime: lifetime, priority: priority) { tally.run(index) } }
    case (.bare(let lifetime), true): for index in indices { target.async(lifetime: lifetime) { tally.runSerially(index) } }
    }
  }

  /// A job for each bit of the tally, of which the first adds two, these two each, and so on: a job is added by the one that runs, for the
  /// owner that it gets.
  func addTree(_ tally: Tally, of count: Int, from index: Int = 0, to queue: CheckedQueue, _ priority: Operation.QueuePriority) {
    let body: @Sendable (Owner) -> Void = { owner in
      if queue.record.isSerial { tally.runSerially(index) } else { tally.run(index) }
      for next in [2 * index + 1, 2 * index + 2] where next < count {
        owner.addTree(tally, of: count, from: next, to: queue, priority)
      }
    }
    let target = queue.queue
    // In the serial queue all is of one priority, so that the jobs of a tally have an order.
    let priority = queue.record.isSerial ? .normal : priority
    switch self {
    case .token(let owner): target.async(owner: owner, priority: priority) { body(.token($0)) }
    case .object(let owner): target.async(owner: owner, priority: priority) { body(.object($0)) }
    case .bare(let lifetime): target.async(lifetime: lifetime, priority: priority) { body(.bare(lifetime)) }
    }
  }

  /// An operation that gets the owner.
  func addOperation(to queue: CheckedQueue, _ priority: Operation.QueuePriority, _ body: @escaping @Sendable () throws -> Void)
    -> OwnedOperation
  {
    switch self {
    case .token(let owner): queue.queue.addOperation(owner: owner, priority: priority) { _ in try body() }
    case .object(let owner): queue.queue.addOperation(owner: owner, priority: priority) { _ in try body() }
    case .bare(let lifetime): queue.queue.addOperation(lifetime: lifetime, priority: priority, body)
    }
  }

  func addDelayed(_ delay: Duration, to queue: CheckedQueue, _ body: @escaping @Sendable () -> Void) {
    switch self {
    case .token(let owner): queue.queue.asyncAfter(delay, owner: owner) { _ in body() }
    case .object(let owner): queue.queue.asyncAfter(delay, owner: owner) { _ in body() }
    case .bare(let lifetime): queue.queue.asyncAfter(delay, lifetime: lifetime, execute: body)
    }
  }

  func addBarrier(to queue: CheckedQueue, _ body: @escaping @Sendable () -> Void) {
    switch self {
    case .token(let owner): queue.queue.addBarrier(owner: owner) { _ in body() }
    case .object(let owner): queue.queue.addBarrier(owner: owner) { _ in body() }
    case .bare(let lifetime): queue.queue.addBarrier(lifetime: lifetime, body)
    }
  }

  func sync(on queue: CheckedQueue, _ body: @escaping @Sendable () -> Void) {
    switch self {
    case .token(let owner): queue.queue.sync(owner: owner) { _ in body() }
    case .object(let owner): queue.queue.sync(owner: owner) { _ in body() }
    case .bare(let lifetime): queue.queue.sync(lifetime: lifetime, execute: body)
    }
  }

  func run(on queue: CheckedQueue, _ body: @escaping @Sendable () async throws -> Void) async throws {
    switch self {
    case .token(let owner): try await queue.queue.run(owner: owner) { _ in try await body() }
    case .object(let owner): try await queue.queue.run(owner: owner) { _ in try await body() }
    case .bare(let lifetime): try await queue.queue.run(lifetime: lifetime, body)
    }
  }

  /// On plain GCD.
  func addJob(to queue: DispatchQueue, _ body: @escaping @Sendable () -> Void) {
    switch self {
    case .token(let owner): queue.async(owner: owner) { _ in body() }
    case .object(let owner): queue.async(owner: owner) { _ in body() }
    case .bare(let lifetime): queue.async(lifetime: lifetime, execute: body)
    }
  }

  func addDelayedJob(_ deadline: DispatchTime, to queue: DispatchQueue, _ body: @escaping @Sendable () -> Void) {
    switch self {
    case .token(let owner): queue.asyncAfter(deadline: deadline, owner: owner) { _ in body() }
    case .object(let owner): queue.asyncAfter(deadline: deadline, owner: owner) { _ in body() }
    case .bare(let lifetime): queue.asyncAfter(deadline: deadline, lifetime: lifetime, execute: body)
    }
  }
}

/// Stores a token.
final class TokenOwner: OperationOwner, Sendable {
  let lifetimeToken: OwnerLifetime.Token

  init(parent: OwnerLifetime? = nil) { lifetimeToken = OwnerLifetime.Token(parent: parent) }
}

/// Stores none.
final class PlainOwner: Sendable {}

/// A place that holds an owner until it is emptied: whoever empties it drops the last reference, unless a body holds the owner.
final class OwnerBox: @unchecked Sendable {  // belongs to one thread or body at a time
  private(set) var owner: Owner?

  init(_ owner: consuming Owner) { self.owner = owner }

  func empty() { owner = nil }
}
