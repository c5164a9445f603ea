import Dispatch

/// Shows a line ten times a second, on a terminal; or now and then, elsewhere.
final class ProgressLine: Sendable {
  private let queue = DispatchQueue(label: "ownedops.progress")
  private let timer: Guarded<any DispatchSourceTimer>

  /// One that is rewritten.
  convenience init(_ line: @escaping @Sendable () -> String) {
    self.init(every: .milliseconds(100)) { Console.shared.progress(line()) }
  }

  /// - Parameter show: called on a queue of its own, never twice at a time.
  init(every interval: DispatchTimeInterval, _ show: @escaping @Sendable () -> Void) {
    let timer = DispatchSource.makeTimerSource(queue: queue)
    self.timer = Guarded(timer)
    timer.schedule(deadline: .now() + interval, repeating: interval)
    timer.setEventHandler(handler: show)
    timer.resume()
  }

  func stop() {
    // On the queue, so that a line that is being written comes before the line is wiped out, and none after.
    queue.sync {
      timer.withLock { $0.cancel() }
      Console.shared.clearProgress()
    }
  }
}
