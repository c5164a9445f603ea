import Dispatch

/// Blocks threads until they are signalled. Any thread.
struct Semaphore: Sendable {
  private let base: PlatformSemaphore

  /// - Parameter value: how many waits don't block. When the last reference goes, it must not be less than at first.
  init(value: Int = 0) { base = PlatformSemaphore(value: value) }

  func signal() { base.signal() }

  func wait() { base.wait() }

  /// - Parameter time: of `Uptime`'s clock. That the time of day is set makes no difference.
  /// - Returns: false if nobody has signalled until then.
  func wait(until time: DispatchTime) -> Bool { base.wait(timeout: time) == .success }
}
