import Dispatch

extension DispatchQueue {
  func submit(_ block: PendingBlock, qos: DispatchQoS, flags: DispatchWorkItemFlags) {
    guard block.lifetime.join(block) else { return }
    async(qos: qos, flags: flags) { block.run() }
  }

  /// Runs the block when the timer, made by `makeTimer`, fires.
  func submit(
    _ block: PendingBlock, on timer: any DispatchSourceTimer, deadline: DispatchTime, qos: DispatchQoS, flags: DispatchWorkItemFlags
  ) {
    timer.setEventHandler(qos: qos, flags: flags) { block.run() }
    timer.schedule(deadline: deadline, leeway: Self.leeway(until: deadline))
    timer.activate()  // in any case: a source must not be released before it has been activated
    if !block.lifetime.join(block) { block.lifetimeDidEnd() }
  }

  func makeTimer() -> any DispatchSourceTimer { DispatchSource.makeTimerSource(queue: self) }

  /// What GCD allows its own delayed blocks: a tenth of the delay, between a millisecond and a minute.
  private static func leeway(until deadline: DispatchTime) -> DispatchTimeInterval {
    let now = DispatchTime.now().uptimeNanoseconds
    let delay = deadline.uptimeNanoseconds > now ? deadline.uptimeNanoseconds - now : 0
    return .nanoseconds(Int(min(max(delay / 10, 1_000_000), 60_000_000_000)))
  }
}
