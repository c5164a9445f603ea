/// Jobs of one owner in a queue, of which one runs at a time, in the order in which they were added. The deliveries of an observation are
/// such.
///
/// The queue lines them up. Each has its place among all that is in the queue, and is counted, waited for, suspended and cancelled as any
/// other job.
///
/// ## Protocol
///
/// All of it is guarded by the queue's lock.
///
/// - While a line has work in a phase, it has a flow of its own there (`OwnerQueue.makeFlow(of:)`). Phases follow one another, so at most
///   one flow of the line has work that runs.
/// - A job is taken from the flow only if none that was taken from it runs (`LineTurns.isHeld`).
/// - One that comes up early is held, with its ticket. It comes back to its place in the run queue when the one that runs is over, or is
///   given back.
/// - What a job leaves to be released is no part of it. Should that take long while the next is held, the monitor finds the job to be over,
///   and counts it.
/// - A worker takes one job of a line, as the last of its batch. What it took behind it would come before the rest of the line.
/// - A job that waits for work of the queue yields the line together with its permit. It goes on when nothing of the line runs, before the
///   next of the line, as with a limit of one. What is merely taken for it to wait behind is reclaimed.
/// - `close` takes out what has not begun. What is added later is refused.
final class SerialLine: DeliveryLine {
  /// What the scheduler knows the line by.
  private let key = LineKey()
  private let queue: OwnerScopedQueue
  private let lifetime: OwnerLifetime

  init(_ queue: OwnerScopedQueue, _ lifetime: OwnerLifetime) { (self.queue, self.lifetime) = (queue, lifetime) }

  func add(_ job: @escaping @Sendable () -> AnyObject?) {
    switch queue.core.mutate(with: .leavingBlock(job), { scheduler, _, work in scheduler.add(work, lifetime, line: key) }) {
    case .taken: break
    case .takenForHeldBackOwner: lifetime.ownerHold?.lookAgainIfHeldBack()
    case .refused: if !lifetime.isAlive { queue.refusedJobs.add() }
    }
  }

  func close(inBackground: Bool) -> AnyObject? {
    let taken = queue.core.mutate { scheduler, _ in scheduler.close(key, of: lifetime) }
    if inBackground { for work in taken { work.release() } }
    return inBackground || taken.isEmpty ? nil : Remains(taken)
  }

  private final class Remains {
    private let taken: [TakenWork]
    init(_ taken: [TakenWork]) { self.taken = taken }
  }
}
