import Foundation

/// Calls once after a while, on a queue of its own, unless it is cancelled or let go before. The closure is released then.
///
/// Ours instead of `URLSession`'s, which cuts to seconds. Nearly all are limits of time that are never reached. So they share a line
/// instead of a source of Dispatch's each: to activate and to cancel a source wakes a thread.
final class OneShotTimer: Sendable {
  private let place: TimerLine.Place
  private let line: TimerLine

  init(after delay: Duration, in line: TimerLine = .shared, _ body: @escaping @Sendable () -> Void) {
    self.line = line
    let nanoseconds = min(max(0, delay.inSeconds * 1e9), 9e18)
    place = line.add(deadline: .now() + .nanoseconds(Int(nanoseconds)), body)
  }

  func cancel() { line.cancel(place) }

  deinit { line.cancel(place) }
}
