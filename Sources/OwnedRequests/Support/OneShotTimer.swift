import Foundation

/// Calls once after a while, unless it is cancelled. The closure is released then. Ours instead of `URLSession`'s, which cuts to seconds.
final class OneShotTimer: Sendable {
  private static let queue = DispatchQueue(label: "OwnedRequests.timers", qos: .userInitiated)
  // A source may be used from any thread.
  nonisolated(unsafe) private let source: any DispatchSourceTimer

  init(after delay: Duration, _ body: @escaping @Sendable () -> Void) {
    source = DispatchSource.makeTimerSource(queue: Self.queue)
    let (seconds, attoseconds) = delay.components
    let nanoseconds = Double(max(0, seconds)) * 1e9 + Double(max(0, attoseconds)) / 1e9
    source.schedule(deadline: .now() + .nanoseconds(Int(min(nanoseconds, 9e18))))
    source.setEventHandler(handler: body)
    source.activate()
  }

  func cancel() { source.cancel() }

  deinit { source.cancel() }
}
