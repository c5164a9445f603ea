import Foundation

/// Starts of processes that are between their beginning and their return.
///
/// From its fork to its exec a new process has a copy of each descriptor that we have, also of those that close at exec. So who wants to
/// know whether somebody else still holds the other end of a pipe closes its own. It waits for the starts that are under way then
/// (`ended`), and looks. A start that begins later finds no descriptor to copy, and one that has returned has left none.
final class StartsUnderWay: Sendable {
  private struct Waiter {
    var starts: Set<Int>
    let goOn: @Sendable () -> Void
  }

  private struct State {
    var starts: Set<Int> = []
    var last = 0
    var waiters: [Waiter] = []
  }

  /// Those of this process.
  static let shared = StartsUnderWay()

  private let state = Guarded(State())

  /// - Parameter start: forks and execs; returns when the new process has become its program, or has failed to.
  func during<Result>(_ start: () -> Result) -> Result {
    let number = state.withLock { state in
      state.last += 1
      state.starts.insert(state.last)
      return state.last
    }
    defer {
      let over = state.withLock { state in
        state.starts.remove(number)
        for index in state.waiters.indices { state.waiters[index].starts.remove(number) }
        let over = state.waiters.filter(\.starts.isEmpty)
        state.waiters.removeAll(where: \.starts.isEmpty)
        return over
      }
      for waiter in over { waiter.goOn() }
    }
    return start()
  }

  /// Returns when all that are under way now have ended. Linear in these.
  private func ended() async {
    await withCheckedContinuation { continuation in
      let waits = state.withLock { state in
        guard !state.starts.isEmpty else { return false }
        state.waiters.append(Waiter(starts: state.starts) { continuation.resume() })
        return true
      }
      if !waits { continuation.resume() }
    }
  }

  /// Whether another process has the end of a pipe that is written to, which this one has closed. What a process has of it that is not its
  /// program yet does not count.
  /// - Parameter pipe: the end that is read from.
  func leaveAWriter(to pipe: Int32) async -> Bool {
    await ended()
    var polled = pollfd(fd: pipe, events: 0, revents: 0)
    return poll(&polled, 1, 0) == 0 || polled.revents & Int16(POLLHUP) == 0
  }

  /// How many wait. For tests.
  var waiting: Int { state.withLock { $0.waiters.count } }
}
