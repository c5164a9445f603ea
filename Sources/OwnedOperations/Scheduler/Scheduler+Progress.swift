import Foundation

/// What the queue's `Progress` is told. It may have observers, and what they run is the user's: so it is told when the lock is free.
///
/// - Whether a unit counts is decided here, by the `totalUnitCount` of the moment in which the work is over.
/// - One thread tells it at a time (`isReporting`), and goes on until nothing is left to tell.
/// - Waits that are over meanwhile end when what came before has been told, and no barrier begins: they find it in the progress.
extension Scheduler {
  struct Report: Sendable {
    fileprivate let progress: Progress
    fileprivate let units: Int

    /// Outside of the lock.
    func tell() { progress.completedUnitCount += Int64(units) }
  }

  /// Work has run and is over.
  mutating func noteProgress(_ count: Int) {
    guard let progress, count > 0, progress.totalUnitCount > 0 else { return }
    dueProgress += count
  }

  /// Whether something is to be told, and nobody does.
  var hasReport: Bool { dueProgress != 0 && !isReporting }

  /// Whether all that is over has been told.
  var isProgressKnown: Bool { dueProgress == 0 && !isReporting }

  /// What the caller is to tell, and then to call `goOnReporting`; nil if there is nothing, or another thread is at it.
  mutating func beginReport() -> Report? { isReporting ? nil : nextReport() }

  /// What the caller has had to tell is told.
  /// - Returns: what is next; and, if there is something, those whose wait was over before.
  mutating func goOnReporting() -> (Report?, [Waiter]) {
    isReporting = false
    let waiters = hasDueWaiters ? takeDueWaiters() : []
    return (nextReport(), waiters)
  }

  private mutating func nextReport() -> Report? {
    guard dueProgress != 0, let progress else { return nil }
    let units = dueProgress
    dueProgress = 0
    isReporting = true
    return Report(progress: progress, units: units)
  }
}
