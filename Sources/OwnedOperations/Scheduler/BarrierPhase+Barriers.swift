/// A phase of barriers that have owners; see `BarrierPhase`.
extension BarrierPhase {
  /// Whether it may become one of barriers. No item of something that is over lies in it, which would be a barrier then; and that costs
  /// nothing that grows with the owners.
  var isFitForBarriers: Bool { isUnused && !hasHadRecords && (fairness == .firstComeFirstServed || ownerQueueCount == 0) }

  /// How many workers it has work for.
  var mostWorkers: Int { isOfBarriers ? min(1, readyCount) : readyCount }

  /// A lifetime that nobody else keeps is to end when its barriers are over, and not when those behind them are.
  func removeIfDropped(_ ownerQueue: OwnerQueue) {
    if let lifetime = ownerQueue.unretainedLifetime, !lifetime.with({ $0.isEndAnnounced }) { removeIfIdle(ownerQueue) }
  }
}
