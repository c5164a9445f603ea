#if os(Linux)
  import Foundation
  import Synchronization
  import Testing

  @testable import OwnedOperations

  /// Faults that take a process along, or come to it from outside: each in a process of its own.
  @Suite struct FaultTests {
    // MARK: Bodies that exit their thread

    /// As with a block on plain GCD, which says so: "premature thread exit". A body's thread is GCD's, and what stands on its stack below
    /// the body would be lost, so there is nothing to go on with.
    @Test(.enabled(if: !Sanitizer.isActive)) func aBodyThatExitsItsThreadStopsTheProcess() async {
      await #expect(processExitsWith: .failure) {
        Limits.noCore()
        OwnerScopedQueue().async(lifetime: .forTests) { pthread_exit(nil) }
        sleep(60)  // the process doesn't come to the end of it
      }
      await #expect(processExitsWith: .failure) {
        Limits.noCore()
        DispatchQueue.global().async { pthread_exit(nil) }
        sleep(60)
      }
    }

    // MARK: Memory that runs out

    /// Clear: the process ends with a signal, soon, and not in a hang; what had run until then had run once.
    @Test(.enabled(if: !Sanitizer.isActive)) func aQueueThatMemoryRunsOutForStopsTheProcess() async {
      await #expect(processExitsWith: .failure) {
        Limits.noCore()
        let queue = OwnerScopedQueue()
        queue.isSuspended = true
        Limits.leaveMemory(64 << 20)
        let end = DispatchTime.now() + 60
        while DispatchTime.now() < end { queue.async(lifetime: .forTests) {} }
        _exit(EXIT_SUCCESS)  // it has not stopped
      }
    }

    /// A body may use all that there is, and give it back.
    @Test(.enabled(if: !Sanitizer.isActive)) func aQueueGoesOnWhenABodyHasUsedUpAllMemory() async {
      await #expect(processExitsWith: .success) {
        let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
        queue.async(lifetime: .forTests) {}
        #expect(queue.becomesIdle())
        Limits.leaveMemory(256 << 20)
        let blocks = Counter()
        for _ in 0..<20 {
          queue.async(lifetime: .forTests) {
            var taken: [UnsafeMutableRawPointer] = []
            taken.reserveCapacity(1_000)
            while taken.count < 1_000, let block = malloc(4 << 20) { taken.append(block) }
            blocks.add(taken.count)
            for block in taken { free(block) }
          }
          queue.addOperation(lifetime: .forTests) {}
        }
        #expect(queue.becomesIdle())
        #expect(blocks.value > 0 && blocks.value < 20 * 1_000)
        #expect(queue.statistics.succeeded == 41 && queue.statistics.enqueued == 41)
      }
    }

    // MARK: A process that is stopped

    private final class Endless: OwnedOperation, @unchecked Sendable {  // stores nothing
      override var isAsynchronous: Bool { true }
      override func didCancel(_ reason: CancellationReason) { finish() }
    }

    /// Delays and time-outs that are due while the process is stopped come when it goes on, once each.
    @Test func aStoppedProcessCatchesUpWhenItGoesOn() async {
      await #expect(processExitsWith: .success) {
        let queue = OwnerScopedQueue(maxConcurrentOperationCount: 4)
        let (ran, skipped) = (Counter(), Counter())
        let gone = OwnerLifetime()
        for number in 0..<200 {
          queue.asyncAfter(.milliseconds(100 + number), lifetime: .forTests) { ran.add() }
          queue.asyncAfter(.milliseconds(100 + number), lifetime: gone) { skipped.add() }
        }
        let late = (0..<4).map { _ in Endless(lifetime: .forTests) }
        for operation in late {
          operation.timeout = .milliseconds(200)
          queue.addOperation(operation)
        }
        gone.end()
        // A child of ours stops us, lets all of that become due, and has us go on.
        #expect(Shell.run("kill -STOP $PPID; sleep 1; kill -CONT $PPID") == 0)
        #expect(eventually { ran.value == 200 })
        #expect(eventually { late.allSatisfy { $0.isFinished } })
        for operation in late {
          guard case .cancelled(.timedOut) = operation.outcome else {
            Issue.record("\(operation) has not timed out")
            continue
          }
        }
        #expect(queue.becomesIdle())
        #expect(ran.value == 200 && skipped.value == 0)
      }
    }
  }

  /// Limits of this process.
  private enum Limits {
    static func noCore() {
      var limit = rlimit(rlim_cur: 0, rlim_max: 0)
      setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
    }

    /// As `ulimit -v`: so many bytes more than there are now.
    static func leaveMemory(_ bytes: Int) {
      let fields = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ") ?? []
      let now = (fields.first.flatMap { Int($0) } ?? 0) * sysconf(Int32(_SC_PAGESIZE))
      var limit = rlimit(rlim_cur: rlim_t(now + bytes), rlim_max: rlim_t(now + bytes))
      setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit)
    }
  }

  private enum Shell {
    /// Starts a shell, and waits for it.
    /// - Returns: as `waitpid` tells it: 0 if all was well, the signal that ended it in the lowest seven bits. Nil: it could not be
    ///   started.
    static func run(_ line: String) -> Int32? {
      var process = pid_t()
      var words: [UnsafeMutablePointer<CChar>?] = []
      for word in ["sh", "-c", line] { words.append(strdup(word)) }
      words.append(nil)
      defer { for word in words { free(word) } }
      guard posix_spawn(&process, "/bin/sh", nil, nil, words, environ) == 0 else { return nil }
      var status: Int32 = 0
      while waitpid(process, &status, 0) < 0, errno == EINTR {}
      return status
    }
  }
#endif
