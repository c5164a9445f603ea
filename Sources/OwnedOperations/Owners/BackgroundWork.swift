import Dispatch
import Synchronization

/// What the library does in the background: members of ended lifetimes are told, captures released, the user's handlers called.
package enum BackgroundWork {
  /// How often what comes of it is looked for. An owner that ends may take two: its members are found in the first, and told in the second.
  private static let mostRounds = 4
  /// In seconds. What blocks is passed by: only a machine that gives our threads no processor uses that up.
  private static let patience = 10
  /// In milliseconds.
  private static let patienceWithBlocked = 200
  /// Has been waited for, and there has always been some since.
  private static let isBlocked = Atomic(false)

  /// Returns when what was handed over before has been done, and what came of it. If that takes long, returns after a while. May be called
  /// from inside of it.
  package static func settle() {
    let end = DispatchTime.now() + .seconds(patience)
    for _ in 0..<mostRounds {
      guard !isIdle else { return isBlocked.store(false, ordering: .relaxed) }
      for pass in [LifetimeReaper.pass, DeferredCalls.add, DeferredReleases.pass, DeferredCalls.resume] {
        let signal = Semaphore()
        pass { signal.signal() }
        guard signal.wait(until: end) else { return }
      }
    }
    waitForBlocked()
  }

  private static var isIdle: Bool { LifetimeReaper.isIdle && DeferredCalls.isIdle && DeferredReleases.isIdle }

  /// What has stood still for a few milliseconds has been passed by. It may have had no processor, and something is to come of it; or it
  /// blocks, and is not waited for again and again.
  private static func waitForBlocked() {
    guard !isBlocked.load(ordering: .relaxed) else { return }
    let end = DispatchTime.now() + .milliseconds(patienceWithBlocked)
    while !isIdle {
      guard DispatchTime.now() < end else { return isBlocked.store(true, ordering: .relaxed) }
      _ = Semaphore().wait(until: .now() + .microseconds(500))
    }
  }
}
