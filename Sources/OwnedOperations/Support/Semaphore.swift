import Dispatch

/// Blocks threads until they are signalled. Any thread.
struct Semaphore: Sendable {
  private let base: DispatchSemaphore

  /// - Parameter value: how many waits don't block. When the last reference goes, it must not be less than at first.
  init(value: Int = 0) { base = DispatchSemaphore(value: value) }

  func signal() { base.signal() }

  func wait() { base.wait() }

  /// - Returns: false if nobody has signalled until then.
  func wait(until time: DispatchTime) -> Bool { base.wait(timeout: time) == .success }
}
