/// Threads that are nobody's but ours. GCD's can all be blocked by others, and then nothing that needs one of them goes on.
///
/// - A thread that has run its body parks. At most `most` are parked; one more ends.
/// - A thread's `work` is written and read under the lock. Whoever takes the thread out of the list writes it and then signals the thread;
///   the thread reads it when it wakes.
/// - A parked thread keeps nothing of what it has run.
enum SpareThreads {
  #if OWNED_OPERATIONS_MODEL
    private static let most = 0
  #else
    private static let most = 6
  #endif

  /// A function by itself would be wrapped twice, in memory of its own, on its way through the lock.
  private struct Work: Sendable {
    let run: @Sendable () -> Void
  }

  private final class Parked: @unchecked Sendable {  // see the rules above
    let semaphore = Semaphore()
    var work: Work?

    init(_ work: Work) { self.work = work }
  }

  private static let parked = Locked<[Parked]>([])

  /// Runs the body on a thread of ours: on a parked one, else on a new one. If the system has no more, on one of GCD's. Any thread; doesn't
  /// wait.
  static func run(_ body: @escaping @Sendable () -> Void) {
    let thread = parked.withLock { parked -> Parked? in
      guard let thread = parked.popLast() else { return nil }
      thread.work = Work(run: body)
      return thread
    }
    if let thread {
      thread.semaphore.signal()
    } else if !start(body) {
      ThreadStart.onPool(qos: .userInitiated, body)
    }
  }

  private static func start(_ body: @escaping @Sendable () -> Void) -> Bool {
    let thread = Parked(Work(run: body))
    return ThreadStart.onNewThread { main(thread) }
  }

  private static func main(_ thread: Parked) {
    while runWork(of: thread) {
      let parks = parked.withLock { parked in
        guard parked.count < most else { return false }
        parked.append(thread)
        return true
      }
      guard parks else { break }
      thread.semaphore.wait()
    }
  }

  /// A function of its own: what has run is gone before the thread parks.
  @inline(never)
  private static func runWork(of thread: Parked) -> Bool {
    guard let work = parked.withLock({ _ in thread.work.take() }) else { return false }
    work.run()
    return true
  }
}
