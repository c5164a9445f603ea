/// Hears that the work on this thread is about to block: a queue's worker has another one take over.
class BlockingObserver {
  func willBlock() {}
  func didUnblock() {}
}

/// Every wait that blocks a thread goes through here.
enum BlockingRegion {
  static func perform<Result>(_ wait: () throws -> Result) rethrows -> Result {
    guard let observer = ThreadSlot.blockingObserver.object(BlockingObserver.self) else { return try wait() }
    observer.willBlock()
    defer { observer.didUnblock() }
    return try wait()
  }
}
