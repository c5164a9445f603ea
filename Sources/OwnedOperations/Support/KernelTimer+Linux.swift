#if os(Linux) && !canImport(ObjectiveC) && !OWNED_OPERATIONS_MODEL
  import COwnedOperations

  /// A timer that one thread waits for, and that others set anew without waking that thread.
  final class KernelTimer: Sendable {
    private let descriptor: Int32

    /// Nil if there is none to be had.
    init?() {
      descriptor = coo_timer_make()
      if descriptor == -1 { return nil }
    }

    deinit { coo_timer_close(descriptor) }

    /// - Parameter time: in nanoseconds of `Uptime`, which goes by the same clock; the maximum for never.
    func set(_ time: UInt64) { coo_timer_set(descriptor, time) }

    /// - Returns: false if it can't be waited for any more.
    func wait() -> Bool { coo_timer_wait(descriptor) }
  }
#endif
