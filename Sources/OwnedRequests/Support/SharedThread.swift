/// Threads that requests of others wait for: those of sessions, of turns, of timers. Nothing of the user's goes there, because a deinit may
/// take its time: what is in charge of it asks `isCurrent`.
enum SharedThread {
  @TaskLocal private static var isMarked = false

  static var isCurrent: Bool { isMarked }

  /// Runs the body, at whose end this thread may have the last reference to something.
  static func run(_ body: () -> Void) { $isMarked.withValue(true, operation: body) }
}
