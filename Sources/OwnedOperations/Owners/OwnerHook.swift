import Synchronization

/// A closure that runs when an owner ends. Made by ``OwnerLifetime/onEnd(_:)``.
///
/// The hook need not be kept: the lifetime keeps it. Keep it to be able to ``cancel()`` it.
public final class OwnerHook: Sendable {
  /// Whoever turns this from false to true, the end or `cancel()`, owns `body` from then on.
  private let isClaimed: Atomic<Bool>
  nonisolated(unsafe) private var body: (@Sendable (OwnerID) -> Void)?

  init(_ body: @escaping @Sendable (OwnerID) -> Void) {
    isClaimed = Atomic(false)
    self.body = body
  }

  /// True until the hook has been run or cancelled.
  public var isPending: Bool { !isClaimed.load(ordering: .acquiring) }

  /// Takes the hook back and releases its closure, unless it has run or is running. Any thread, also from inside another hook.
  public func cancel() {
    _ = claim()
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
