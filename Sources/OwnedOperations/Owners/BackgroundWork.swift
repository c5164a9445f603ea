import Dispatch

/// What the library does in the background: members of ended lifetimes are told, captures released, the user's handlers called.
package enum BackgroundWork {
  /// How often what comes of it is looked for. An owner that ends may take two: its members are found in the first, and told in the second.
  private static let mostRounds = 4

  /// Returns when what was handed over before has been done, and most often what came of it. If that takes long, returns after a while. May
  /// be called from inside of it.
  package static func settle(within seconds: Int = 1) {
    let end = DispatchTime.now() + .seconds(seconds)
    for _ in 0..<mostRounds {
      guard !(LifetimeReaper.isIdle && DeferredCalls.isIdle && DeferredReleases.isIdle) else { return }
      for pass in [LifetimeReaper.pass, DeferredCalls.add, DeferredReleases.pass, DeferredCalls.resume] {
        let signal = Semaphore()
        pass { signal.signal() }
        guard signal.wait(until: end) else { return }
      }
    }
  }
}
