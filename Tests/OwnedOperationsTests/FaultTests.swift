#if os(Linux)
  import CFoundationLocks
  import Foundation
  import Synchronization
  import Testing

  @testable import OwnedOperations

  /// Faults that take a process along, or come to it from outside: each in a process of its own.
  @Suite struct FaultTests {
    // MARK: Bodies that exit their thread

    /// By the signal by which a block on plain GCD stops it, which calls that "premature thread exit". A body's thread is GCD's, and what
    /// stands on its stack below the body would be lost, so there is nothing to go on with.
    @Test(.enabled(if: !Sanitizer.isActive)) func aBodyThatExitsItsThreadStopsTheProcess() async {
      let result = await #expect(processExitsWith: .failure) {
        Limits.noCore()
        OwnerScopedQueue().async(lifetime: .forTests) { pthread_exit(nil) }
        sleep(60)  // the process doesn't come to the end of it
      }
      let plain = await #expect(processExitsWith: .failure) {
        Limits.noCore()
        DispatchQueue.global().async { pthread_exit(nil) }
        sleep(60)
      }
      guard case .signal(let signal)? = result?.exitStatus, case .signal(let plainSignal)? = plain?.exitStatus else {
        Issue.record("they ended with \(String(describing: result)) and \(String(describing: plain)), not by a signal")
        return
      }
      #expect(signal == plainSignal && signal != SIGSEGV)
    }

    // MARK: Bodies that throw, or whose child process crashes

    private struct Thrown: Error {}

    /// What throws has failed, a child's signal is for its parent to hear of, and everybody else runs.
    @Test func bodiesThatThrowOrCrashAChildHarmNobody() async {
      await #expect(processExitsWith: .success) {
        let queue = OwnerScopedQueue(maxConcurrentOperationCount: 4)
        let (crashed, ran) = (Counter(), Counter())
        let crashing = (0..<8).map { _ in
          queue.addOperation(lifetime: .forTests) {
            let status = Shell.run("ulimit -c 0; kill -SEGV $$") ?? 0
            if status & 0x7f == SIGSEGV { crashed.add() }
          }
        }
        let throwing = (0..<8).map { _ in queue.addOperation(lifetime: .forTests) { throw Thrown() } }
        for _ in 0..<100 { queue.async(lifetime: .forTests) { ran.add() } }
        #expect(queue.becomesIdle())
        #expect(crashed.value == 8 && ran.value == 100)
        #expect(crashing.allSatisfy { if case .succeeded = $0.outcome { true } else { false } })
        #expect(throwing.allSatisfy { if case .failed(is Thrown) = $0.outcome { true } else { false } })
        #expect(queue.statistics.failed == 8 && queue.statistics.succeeded == 108)
      }
    }

    // MARK: Memory that runs out

    /// Clear: it is the allocation that stops the process, which says so, soon, and not what comes of going on without. (Then it would
    /// print a trace of the stack, for which there is no memory either; so which signal it is says nothing.)
    @Test(.enabled(if: !Sanitizer.isActive)) func aQueueThatMemoryRunsOutForStopsTheProcess() async {
      let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        Limits.noCore()
        let queue = OwnerScopedQueue()
        queue.isSuspended = true
        Limits.leaveMemory(64 << 20)
        let end = DispatchTime.now() + 60
        while DispatchTime.now() < end { queue.async(lifetime: .forTests) {} }
        _exit(EXIT_SUCCESS)  // it has not stopped
      }
      guard let result, case .signal = result.exitStatus else {
        Issue.record("it ended with \(String(describing: result?.exitStatus)), not by a signal")
        return
      }
      let text = String(decoding: result.standardErrorContent, as: UTF8.self)
      #expect(text.hasPrefix("Fatal error: failed to allocate "), "it says \(text.prefix(200))")
    }

    /// A body may use all that there is, and give it back.
    @Test(.enabled(if: !Sanitizer.isActive)) func aQueueGoesOnWhenABodyHasUsedUpAllMemory() async {
      await #expect(processExitsWith: .success) {
        let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
        let blocks = Counter()
        @Sendable func takeAndGiveBack(atMost most: Int) {
          var taken: [UnsafeMutableRawPointer] = []
          taken.reserveCapacity(most)
          while taken.count < most, let block = malloc(4 << 20) { taken.append(block) }
          blocks.add(taken.count)
          for block in taken { free(block) }
        }
        func round(atMost most: Int) {
          let isOver = DispatchSemaphore(value: 0)
          // While a body has all memory nobody else is to want any, not even for the stack of a thread that waits.
          queue.isSuspended = true
          for _ in 0..<20 {
            queue.async(lifetime: .forTests) { takeAndGiveBack(atMost: most) }
            queue.addOperation(lifetime: .forTests) {}
          }
          queue.async(lifetime: .forTests) { isOver.signal() }
          queue.isSuspended = false
          #expect(isOver.waitUntilSignalled())
          #expect(queue.becomesIdle())
        }
        // The runtime, too, has memory for what it does for the first time: it stops the process if there is none.
        round(atMost: 1)
        #expect(blocks.value == 20)
        Limits.leaveMemory(256 << 20)
        round(atMost: 1_000)
        #expect(blocks.value > 40 && blocks.value < 20 * 1_000)
        #expect(queue.statistics.succeeded == 82 && queue.statistics.enqueued == 82)
      }
    }

    // MARK: A clock that is set back

    /// Nothing of ours waits by the time of day.
    @Test func aClockThatIsSetBackHoldsNothingUp() async {
      await #expect(processExitsWith: .success) {
        #expect(dispatch_clock_is_ahead())
        let others = Mutexed(0)
        Thread.detachNewThread {
          _ = DispatchSemaphore(value: 0).wait(timeout: .now() + .milliseconds(1))
          others.value = 1
        }
        let queue = OwnerScopedQueue()
        let ticks = Journal<Int>()
        for number in 0..<3 { queue.asyncAfter(.milliseconds(20), lifetime: .forTests) { ticks.write(number) } }
        #expect(eventually { ticks.entries.count == 3 })
        let late = Endless(lifetime: .forTests)
        late.timeout = .milliseconds(20)
        queue.addOperation(late)
        await late.finished()
        // A thread that is parked gives up, and one that waits looks again at what it waits for.
        let isCalled = Semaphore().wait(until: Uptime.time(after: .milliseconds(20)))
        let isOver = WaitingThread().wait(for: .milliseconds(20))
        #expect(!isCalled && !isOver)
        #expect(others.value == 0, "the clock was not set back for anybody")
      }
    }

    // MARK: Threads

    /// All at once, and each with an owner of its own.
    @Test(.enabled(if: !Sanitizer.isActive)) func tenThousandThreadsAdd() async {
      await #expect(processExitsWith: .success) {
        let count = 10_000
        let queue = OwnerScopedQueue()
        let (there, ran, ended) = (Counter(), Counter(), DispatchSemaphore(value: 0))
        let gate = NSCondition()
        let isOpen = Mutexed(false)
        for _ in 0..<count {
          let thread = Thread {
            there.add()
            gate.lock()
            while !isOpen.value { gate.wait() }
            gate.unlock()
            let owner = OwnerLifetime()
            queue.async(lifetime: owner) { ran.add() }
            queue.waitUntilFinished(ownedBy: owner)
            ended.signal()
          }
          thread.stackSize = 128 << 10
          thread.start()
        }
        #expect(eventually { there.value == count })
        gate.withLock {
          isOpen.value = true
          gate.broadcast()
        }
        for _ in 0..<count { #expect(ended.waitUntilSignalled()) }
        #expect(ran.value == count && queue.statistics.succeeded == count)
      }
    }

    /// Where no thread is to be had, work waits until there is one. Nothing is lost, and nothing runs twice. GCD, which is asked for one,
    /// may hold up who asks.
    @Test(.enabled(if: !Sanitizer.isActive)) func workWaitsUntilThereAreThreads() async {
      await #expect(processExitsWith: .success) {
        let ran = Counter()
        let (limited, added) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        // This one is there before.
        Thread.detachNewThread {
          limited.wait()
          let queue = OwnerScopedQueue()
          for _ in 0..<100 { queue.async(lifetime: .forTests) { ran.add() } }
          let gone = OwnerLifetime()
          for _ in 0..<100 { queue.async(lifetime: gone) {} }
          gone.end()
          queue.waitUntilAllOperationsAreFinished()
          added.signal()
        }
        Limits.mayStartThreads(false)
        #expect(!ThreadStart.onNewThread {})
        limited.signal()
        // A thread of GCD's that has nothing to do may be there, and do it.
        let isDone = added.wait(timeout: .now() + 1) == .success
        Limits.mayStartThreads(true)
        #expect(isDone || added.waitUntilSignalled())
        #expect(ran.value == 100)
      }
    }

    // MARK: Bodies that never return

    /// It keeps its thread, and its permit. Others go on; nobody who has a deadline waits longer, and an end doesn't wait at all.
    @Test func aBodyThatNeverReturnsHoldsNobodyElseUp() async {
      let gate = Gate()
      defer { gate.open() }
      let queue = OwnerScopedQueue(maxConcurrentOperationCount: 2)
      let lifetime = OwnerLifetime()
      queue.async(lifetime: lifetime) { gate.pass() }
      #expect(gate.hasBegun())
      let others = Counter()
      for _ in 0..<1000 { queue.async(lifetime: .forTests) { others.add() } }
      #expect(await lifetime.drain(on: queue, timeout: .milliseconds(1)) == false)
      await queue.finished(ownedBy: .forTests)
      #expect(others.value == 1000 && !lifetime.isAlive && queue.operationCount == 1)
    }

    /// The queue goes when its last body is over, whoever lets go of it: here the body, of the last reference but the worker's.
    @Test func aBodyLetsGoOfItsQueue() async {
      let reference = Weakly<OwnerScopedQueue>()
      let ran = Counter()
      do {
        let holder = Mutexed<OwnerScopedQueue?>(OwnerScopedQueue(maxConcurrentOperationCount: 1))
        let queue = holder.value
        reference.object = queue
        let gate = Gate()
        queue?.async(lifetime: .forTests) {
          gate.pass()
          holder.value = nil
          ran.add()
        }
        queue?.async(lifetime: .forTests) { ran.add() }
        #expect(gate.hasBegun())
        gate.open()
      }
      #expect(eventually { reference.object == nil })
      #expect(ran.value == 2)
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
        // None begins before its owner has ended, however long it takes to come to that.
        queue.isSuspended = true
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
        queue.isSuspended = false
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

    /// New threads need a stack for which there is no room, or one of the usual size. Memory for everything else there is in either case.
    static func mayStartThreads(_ mayStart: Bool) {
      var attributes = pthread_attr_t()
      guard pthread_attr_init(&attributes) == 0 else { return }
      defer { pthread_attr_destroy(&attributes) }
      pthread_attr_setstacksize(&attributes, mayStart ? 8 << 20 : 1 << 50)
      // Glibc's, which its module for Swift leaves out.
      typealias SetDefault = @convention(c) (UnsafePointer<pthread_attr_t>) -> Int32
      guard let function = dlsym(nil, "pthread_setattr_default_np") else { return }
      _ = unsafeBitCast(function, to: SetDefault.self)(&attributes)
    }

    private static var addressSpace: Int {
      let fields = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ") ?? []
      return (fields.first.flatMap { Int($0) } ?? 0) * sysconf(Int32(_SC_PAGESIZE))
    }

    /// As `ulimit -v`: so many bytes more than there are now.
    static func leaveMemory(_ bytes: Int) {
      let most = rlim_t(addressSpace + bytes)
      var limit = rlimit(rlim_cur: most, rlim_max: most)
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
