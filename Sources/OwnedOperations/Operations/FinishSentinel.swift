import Foundation
import Synchronization

/// Tells once when a plain operation has finished.
///
/// On Linux it is an operation that depends on the plain one and is in no queue: the base class asks `isReady` of it when the plain one finishes, and
/// that question is the news. The plain operation knows its dependents unretained, so whoever made the sentinel keeps it until it has fired, or disarms it.
// `@unchecked Sendable`: `hasFired` is atomic; `observation` is written once, before the sentinel is shared; the rest never changes.
final class FinishSentinel: Operation, @unchecked Sendable {
  private let operation: Operation
  private let body: @Sendable () -> Void
  private let hasFired = Atomic<Bool>(false)

  #if canImport(ObjectiveC)
    private var observation: NSKeyValueObservation?
  #endif

  init(of operation: Operation, _ body: @escaping @Sendable () -> Void) {
    self.operation = operation
    self.body = body
  }

  /// Begins to watch. If the operation has finished meanwhile, tells at once.
  func arm() {
    #if canImport(ObjectiveC)
      observation = operation.observe(\.isFinished, options: [.initial]) { [weak self] operation, _ in
        if operation.isFinished { self?.fire() }
      }
    #else
      addDependency(operation)
    #endif
    if hasFired.load(ordering: .acquiring) { disarm() }
  }

  func disarm() {
    hasFired.store(true, ordering: .releasing)
    #if canImport(ObjectiveC)
      observation?.invalidate()
    #else
      removeDependency(operation)
    #endif
  }

  override var isReady: Bool {
    if operation.isFinished { fire() }
    return false
  }

  private func fire() {
    guard !hasFired.exchange(true, ordering: .acquiringAndReleasing) else { return }
    body()
    disarm()
  }
}
