import Dispatch

/// Threads that are nobody's but ours. GCD's can all be blocked by others, and then nothing that needs one of them goes on.
///
/// - A thread that has run its body parks. At most `most` are parked; one more ends.
/// - A thread's `work` is written and read under the lock. Whoever takes the thread out of the list writes it and then signals the thread;
///   the thread reads it when it wakes.
/// - A thread that wakes and finds no work ends.
/// - A parked thread keeps nothing of what it has run.
final class SpareThreads: Sendable {
  #if OWNED_OPERATIONS_MODEL
    /// A run of the model ends with its threads, so none parks.
    static let shared = SpareThreads(most: 0)
  #else
    static let shared = SpareThreads(most: 6)
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

  private struct State {
    var parked: [Parked] = []
    var most: Int
  }

  private let state: Locked<State>

  /// - Parameter most: how many threads are parked at most.
  init(most: Int) { state = Locked(State(most: most)) }

  /// Runs the body on a thread of ours: on a parked one, else on a new one. If the system has no more, on one of GCD's. Any thread; doesn't
  /// wait.
  func run(_ body: @escaping @Sendable () -> Void) {
    let thread = state.withLock { state -> Parked? in
      guard let thread = Mutation.parkedThreadIsCalledTwice.isOn ? state.parked.last : state.parked.popLast() else { return nil }
      if !Mutation.parkedThreadIsCalledTooEarly.isOn { thread.work = Work(run: body) }
      return thread
    }
    if let thread {
      thread.semaphore.signal()
      if Mutation.parkedThreadIsCalledTooEarly.isOn { state.withLock { _ in thread.work = Work(run: body) } }
    } else if !start(body) {
      // By way of a queue of its own, which GCD gives a thread even while all of the pool's are blocked.
      ThreadStart.on(DispatchQueue(label: "OwnedOperations.spare", qos: .userInitiated)) { body() }
    }
  }

  private func start(_ body: @escaping @Sendable () -> Void) -> Bool {
    let thread = Parked(Work(run: body))
    return ThreadStart.onNewThread { [self] in main(thread) }
  }

  private func main(_ thread: Parked) {
    while runWork(of: thread) {
      let parks = state.withLock { state in
        guard state.parked.count < state.most else { return false }
        state.parked.append(thread)
        return true
      }
      guard parks else { break }
      thread.semaphore.wait()
    }
  }

  /// A function of its own: what has run is gone before the thread parks.
  @inline(never)
  private func runWork(of thread: Parked) -> Bool {
    guard let work = state.withLock({ _ in thread.work.take() }) else { return false }
    work.run()
    return true
  }

  /// For the model. No thread parks from now on, and those that are parked end.
  func endParked() {
    let parked = state.withLock { state in
      defer { (state.parked, state.most) = ([], 0) }
      return state.parked
    }
    for thread in parked { thread.semaphore.signal() }
  }
}
