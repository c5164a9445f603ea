import Synchronization

/// A closure that runs when an owner ends. Made by ``OwnerLifetime/onEnd(_:)``.
///
/// The hook need not be kept: the lifetime keeps it. Keep it to be able to ``cancel()`` it.
public final class OwnerHook: Sendable {
  /// Whoever turns this from false to true, the end or `cancel()`, owns `body` from then on.
  private let isClaimed: Atomic<Bool>
  nonisolated(unsafe) private var body: (@Sendable (OwnerID) -> Void)?
  /// Nil if the owner had ended. The list keeps the hook, and lets go of it at the end of the owner, or after `cancel()`.
  private let list: OwnerHookList?

  init(_ body: @escaping @Sendable (OwnerID) -> Void, in list: OwnerHookList?) {
    isClaimed = Atomic(false)
    self.body = body
    self.list = list
  }

  /// True until the hook has been run or cancelled.
  public var isPending: Bool { !isClaimed.load(ordering: .acquiring) }

  /// Takes the hook back and releases its closure, unless it has run or is running. Any thread, also from inside another hook. Amortised
  /// constant time.
  public func cancel() {
    let body = claim()
    if body != nil { list?.noteCancelled() }
  }

  func run(_ id: OwnerID) {
    claim()?(id)
  }

  private func claim() -> (@Sendable (OwnerID) -> Void)? {
    guard !isClaimed.exchange(true, ordering: .acquiringAndReleasing) else { return nil }
    defer { body = nil }
    return body
  }
}

/// The hooks of one lifetime, in order. Outlives it where hooks are kept that were cancelled or have run.
///
/// Closed once, by the end of the owner; what is appended before is taken along, what comes later is
/// refused.
final class OwnerHookList: Sendable {
  private static let fewest = 16

  private let state: Locked<State>

  private struct State {
    var hooks: [OwnerHook] = []
    /// An estimate: some may have been swept before they were counted.
    var cancelled = 0
    var isClosed = false
  }

  init(seed id: OwnerID) {
    state = Locked(State(), seed: id.rawValue)
  }

  var capacity: Int { state.withLock { $0.hooks.capacity } }

  /// - Returns: false if the list has been closed.
  func append(_ hook: OwnerHook) -> Bool {
    state.withLock { state in
      guard !state.isClosed else { return false }
      state.hooks.append(hook)
      return true
    }
  }

  func close() -> [OwnerHook] {
    var taken: [OwnerHook] = []
    state.withLock { state in
      state.isClosed = true
      swap(&taken, &state.hooks)
    }
    return taken
  }

  /// Sweeps when half of the hooks have been cancelled. So each cancellation pays for few, and the list is never much longer than what
  /// waits.
  func noteCancelled() {
    var former: [OwnerHook] = []  // goes outside the lock
    state.withLock { state in
      state.cancelled += 1
      guard state.cancelled >= Self.fewest, state.cancelled * 2 >= state.hooks.count else { return }
      state.cancelled = 0
      former = state.hooks
      state.hooks = former.filter(\.isPending)
    }
    former.removeAll()
  }
}
