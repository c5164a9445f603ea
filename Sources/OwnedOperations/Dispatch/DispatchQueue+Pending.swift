import Dispatch

extension DispatchQueue {
  func submit(_ block: PendingBlock, qos: DispatchQoS, flags: DispatchWorkItemFlags) {
    guard block.lifetime.join(block) else { return block.lifetimeDidEnd() }
    ThreadStart.on(self, qos: qos, flags: flags) { block.run() }
  }

  /// Runs the block when the timer, made by `makeTimer`, fires.
  func submit(
    _ block: PendingBlock, on timer: UptimeTimer, deadline: DispatchTime, qos: DispatchQoS, flags: DispatchWorkItemFlags
  ) {
    timer.setHandler(qos: qos, flags: flags) { block.run() }
    timer.set(deadline, leeway: Self.leeway(until: deadline))
    timer.activate()  // in any case: a source must not be released before it has been activated
    if !block.lifetime.join(block), !Mutation.delayedBlockMissesTheEnd.isOn { block.lifetimeDidEnd() }
  }

  func makeTimer() -> UptimeTimer { UptimeTimer(on: self) }

  /// What GCD allows its own delayed blocks: a tenth of the delay, between a millisecond and a minute.
  private static func leeway(until deadline: DispatchTime) -> DispatchTimeInterval {
    let now = Uptime.now
    let delay = deadline.uptimeNanoseconds > now ? deadline.uptimeNanoseconds - now : 0
    return .nanoseconds(Int(min(max(delay / 10, 1_000_000), 60_000_000_000)))
  }
}
