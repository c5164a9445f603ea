import Foundation
import Testing

@testable import OwnedOperations

/// The runtime calls a task's cancellation handlers under a lock of the task, and takes that to resume it.
@Suite struct CrossedCancellationTests {
  private let queues = [OwnerScopedQueue(name: "one"), OwnerScopedQueue(name: "other")]
  private let lifetime = OwnerLifetime()
  private let both = Meeting(of: 2)

  /// Each who comes waits for all.
  private final class Meeting: Sendable {
    private let gathered = DispatchGroup()

    init(of count: Int) { for _ in 0..<count { gathered.enter() } }

    func attend() {
      gathered.leave()
      gathered.wait()
    }
  }

  /// Two tasks are cancelled at a time. Each waits for a queue whose only work is the other's: it is cancelled with it, in one of our
  /// handlers, and resumes the first, which is just being cancelled itself.
  @Test func twoThatWaitForEachOthersWorkGoOn() {
    for queue in queues { queue.isSuspended = true }
    let areOver = DispatchGroup()
    let tasks = [0, 1].map { index in
      areOver.enter()
      return Task.detached { [self] in
        await withTaskGroup(of: Void.self) { group in
          group.addTask { [self] in try? await queues[index].run(lifetime: lifetime) {} }
          while queues[1 - index].operationCount == 0 { await Task.yield() }
          // In the group, so that it is called before the group's task is cancelled.
          await withTaskCancellationHandler {
            await queues[1 - index].finished()
          } onCancel: {
            both.attend()
          }
        }
        areOver.leave()
      }
    }
    let wait = eventually { [queues] in queues.allSatisfy { $0.operationCount == 1 && $0.snapshot.waits == 1 } }
    #expect(wait)
    for task in tasks { Thread.detachNewThread { task.cancel() } }
    #expect(areOver.wait(timeout: .now() + 60) == .success)
  }
}
