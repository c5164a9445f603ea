import Foundation

/// What a scheduler asks of an operation. Unlike the public members, these touch nothing of Foundation's and cost one load.
extension OwnedOperation {
  final var scheduledPriority: Operation.QueuePriority { load().priority }

  /// Nil until somebody has set it.
  final var explicitQualityOfService: QualityOfService? { load().qualityOfService }

  /// Whether dependencies let the operation start, whatever a subclass makes of `isReady`.
  final var isReadyByDependencies: Bool { load().isReady }

  /// The scheduler knows, or is being told, that the operation has become ready, and nobody has claimed that. It may be blocked again: who
  /// claims it finds out.
  final var isWaitingForScheduler: Bool {
    let word = load()
    return word.phase == .pending && word.contains(.announced)
  }

  /// It holds itself back, and the scheduler is to ask it again.
  final var isWatched: Bool { load().contains(.watched) }

  /// Whether the work began.
  final var didRun: Bool { load().contains(.ran) }
}
