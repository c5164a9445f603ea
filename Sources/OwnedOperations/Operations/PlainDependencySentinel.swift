import Foundation
import Synchronization

/// Watches a plain operation that one of ours depends on.
///
/// On Linux it is an operation that depends on the plain one and is in no queue: the base class asks `isReady` of it when the plain one finishes, and
/// that question is the news. The plain operation knows its dependents unretained, so the sentinel must be disarmed before it goes.
///
/// On platforms with an Objective-C runtime it observes `isFinished`.
// `@unchecked Sendable`: `hasFired` is atomic; `observation` is written once, before the sentinel is shared; the rest never changes.
final class PlainDependencySentinel: Operation, @unchecked Sendable {
  private let dependency: Operation
  private let cell: DependencyCell
  private let hasFired = Atomic<Bool>(false)

  #if canImport(ObjectiveC)
    private var observation: NSKeyValueObservation?
  #endif

  init(_ dependency: Operation, _ cell: DependencyCell) {
    self.dependency = dependency
    self.cell = cell
  }

  /// Begins to watch. If the dependency has finished meanwhile, tells at once.
  func arm() {
    #if canImport(ObjectiveC)
      observation = dependency.observe(\.isFinished, options: [.initial]) { [unowned(unsafe) self] dependency, _ in
        if dependency.isFinished { fire() }
      }
    #else
      addDependency(dependency)
    #endif
    if hasFired.load(ordering: .acquiring) { disarm() }  // which may have come while there was nothing to disarm
  }

  func disarm() {
    hasFired.store(true, ordering: .releasing)
    #if canImport(ObjectiveC)
      observation?.invalidate()
    #else
      removeDependency(dependency)
    #endif
  }

  override var isReady: Bool {
    if dependency.isFinished { fire() }
    return false
  }

  private func fire() {
    guard !hasFired.exchange(true, ordering: .acquiringAndReleasing) else { return }
    let failure = dependency.isCancelled ? DependencyFailure(dependency) : nil
    if let dependent = cell.resolve(dependency) {
      Aftermath.run { aftermath in dependent.dependencyDidFinish(failure, &aftermath) }
    }
    cell.takeSentinel(for: dependency)?.disarm()
  }
}
