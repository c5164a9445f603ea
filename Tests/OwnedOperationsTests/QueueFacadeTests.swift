import Foundation
import Testing

@testable import OwnedOperations

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

@Suite struct QueueFacadeTests {
  @Test func notificationsAreDeliveredOnTheQueue() {
    let queue = OwnerScopedQueue(name: "notifications")
    let name = Notification.Name("QueueFacadeTests.\(OwnerLifetime().id)")
    let journal = Journal<OwnerScopedQueue?>()
    let delivered = DispatchSemaphore(value: 0)
    let center = NotificationCenter()
    let observer = center.addObserver(forName: name, object: nil, queue: queue.operationQueue) { _ in
      journal.write(OwnerScopedQueue.current)
      delivered.signal()
    }
    #expect(returns { center.post(name: name, object: nil) })
    #expect(delivered.waitUntilSignalled())
    #expect(journal.entries == [queue])
    center.removeObserver(observer)
  }

  /// The delegate's calls come on the queue. The request fails (nothing listens on the port of a loopback address that was just closed),
  /// and that is told to the delegate, too.
  @Test func delegatesOfURLSessionsAreCalledOnTheQueue() throws {
    final class Delegate: NSObject, URLSessionTaskDelegate, Sendable {
      let seen = Journal<OwnerScopedQueue?>()
      let done = DispatchSemaphore(value: 0)
      func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        seen.write(OwnerScopedQueue.current)
        done.signal()
      }
    }
    let queue = OwnerScopedQueue(name: "session", maxConcurrentOperationCount: 1)
    let delegate = Delegate()
    let session = URLSession(configuration: .ephemeral, delegate: delegate, delegateQueue: queue.operationQueue)
    let url = try #require(URL(string: "http://127.0.0.1:1/"))
    session.dataTask(with: url).resume()
    #expect(delegate.done.waitUntilSignalled())
    #expect(delegate.seen.entries == [queue])
    session.finishTasksAndInvalidate()
  }

  @Test func everyMemberIsPassedOn() {
    let queue = OwnerScopedQueue(name: "facade")
    let facade = queue.operationQueue
    facade.isSuspended = true
    facade.maxConcurrentOperationCount = 1
    facade.qualityOfService = .utility
    #expect(queue.isSuspended && queue.maxConcurrentOperationCount == 1 && queue.qualityOfService == .utility)
    #expect(facade.name == "facade")
    facade.name = "renamed"
    #expect(queue.name == "renamed")
    let journal = Journal<String>()
    facade.addOperation { journal.write("block") }
    facade.addOperation(BlockOperation { journal.write("operation") })
    facade.addBarrierBlock { journal.write("barrier") }
    facade.addOperations([OwnedBlockOperation(lifetime: .forTests) { journal.write("ours") }], waitUntilFinished: false)
    #expect(queue.operationCount == 3)
    #expect(facade.progress === queue.progress)
    facade.isSuspended = false
    #expect(returns { facade.waitUntilAllOperationsAreFinished() })
    #expect(journal.entries == ["block", "operation", "barrier", "ours"])
    facade.isSuspended = true
    facade.addOperation { Issue.record("cancelled work has run") }
    facade.cancelAllOperations()
    #expect(queue.operationCount == 0)
    let underlying = DispatchQueue(label: "underlying")
    facade.underlyingQueue = underlying
    #expect(queue.underlyingQueue === underlying && facade.underlyingQueue === underlying)
  }

  @Test func facadeAndQueueDoNotKeepEachOtherForEver() {
    let seen = Weakly<OwnerScopedQueue>()
    let facadeSeen = Weakly<OperationQueue>()
    do {
      let queue = OwnerScopedQueue()
      seen.object = queue
      var facade: OperationQueue? = queue.operationQueue
      #expect(facade === queue.operationQueue)
      facadeSeen.object = facade
      facade = nil
    }
    #expect(seen.object == nil)
    #expect(facadeSeen.object == nil)
  }

  @Test func facadeOfAQueueThatNobodyElseHoldsKeepsWhatTheQueueIs() {
    let underlying = DispatchQueue(label: "underlying")
    let queueGone: DispatchSemaphore
    let facade: OperationQueue
    let progress: Progress
    do {
      let queue = OwnerScopedQueue(name: "kept", maxConcurrentOperationCount: 1, qualityOfService: .utility, underlyingQueue: underlying)
      queue.isSuspended = true
      queue.maxConcurrentOperationCountPerOwner = 3
      facade = queue.operationQueue
      progress = queue.progress
      progress.totalUnitCount = 10
      queueGone = goodbye(of: queue)
    }
    #expect(queueGone.waitUntilSignalled())
    #expect(facade.maxConcurrentOperationCount == 1 && facade.isSuspended && facade.name == "kept")
    #expect(facade.qualityOfService == .utility && facade.underlyingQueue === underlying && facade.progress === progress)
    let journal = Journal<Int>()
    let current = Mutexed<OwnerScopedQueue?>(nil)
    for number in 0..<100 { facade.addOperation { journal.write(number) } }
    facade.addOperation {
      current.value = .current
      #expect(OwnerScopedQueue.current?.operationQueue === facade)
    }
    #expect(journal.entries.isEmpty)
    facade.isSuspended = false
    #expect(returns { facade.waitUntilAllOperationsAreFinished() })
    #expect(journal.entries == Array(0..<100))
    #expect(current.value?.maxConcurrentOperationCountPerOwner == 3)
    #expect(progress.completedUnitCount == 101)
  }

  @Test func jobsOfASuspendedQueueStayWithItsFacade() throws {
    let journal = Journal<String>()
    let (dead, alive) = (OwnerLifetime(), OwnerLifetime())
    let released = DispatchSemaphore(value: 0)
    let facade: OperationQueue
    let run: GraphRun
    do {
      let queue = OwnerScopedQueue(name: "suspended")
      facade = queue.operationQueue
      queue.isSuspended = true
      queue.async(lifetime: alive) { journal.write("job") }
      let deinitProbe = DeinitProbe { released.signal() }
      queue.async(lifetime: dead) { deinitProbe.mustNotRun() }
      let graph = OperationGraph(lifetime: alive)
      graph.node { journal.write("node") }
      run = try graph.run(on: queue)
    }
    dead.end()
    #expect(released.waitUntilSignalled())  // the queue's heir hears of the end
    #expect(journal.entries.isEmpty && !run.isFinished)
    facade.isSuspended = false
    #expect(returns { facade.waitUntilAllOperationsAreFinished() })
    #expect(journal.entries.sorted() == ["job", "node"])
    #expect(returns { run.wait() })
  }

  @Test func queueAndFacadeGoWhenNobodyHoldsEither() {
    let released = DispatchSemaphore(value: 0)
    let heir = Weakly<OwnerScopedQueue>()
    let facadeSeen = Weakly<OperationQueue>()
    do {
      var queue: OwnerScopedQueue? = OwnerScopedQueue()
      let facade = queue?.operationQueue
      facadeSeen.object = facade
      let deinitProbe = DeinitProbe { released.signal() }
      queue?.isSuspended = true
      queue?.async(lifetime: .forTests) { deinitProbe.mustNotRun() }
      queue = nil
      facade?.isSuspended = true
      heir.object = (facade as? OperationQueueFacade)?.queue
      #expect(heir.object != nil)
    }
    #expect(released.waitUntilSignalled())
    #expect(facadeSeen.object == nil && heir.object == nil)
  }

  /// Foundation's centre waits for all that the queue has, unless it knows that it is called from the same queue. What is added in between
  /// waits for the body that posts.
  @Test(arguments: [1, 2, OwnerScopedQueue.defaultMaxConcurrentOperationCount])
  func postingFromInsideTheQueuesWorkWaitsForTheObserverOnly(limit: Int) {
    let queue = OwnerScopedQueue(name: "posting", maxConcurrentOperationCount: limit)
    let center = NotificationCenter()
    let journal = Journal<String>()
    let name = Notification.Name("QueueFacadeTests.inside")
    let observer = center.addObserver(forName: name, object: nil, queue: queue.operationQueue) { _ in journal.write("observer") }
    let hasPosted = DispatchSemaphore(value: 0)
    queue.addOperation {
      queue.addOperation {
        hasPosted.wait()
        journal.write("other")
      }
      journal.write("posts")
      center.post(name: name, object: nil)
      center.post(name: name, object: nil)
      journal.write("has posted")
      hasPosted.signal()
    }
    #expect(queue.becomesIdle())
    #expect(journal.entries == ["posts", "observer", "observer", "has posted", "other"])
    center.removeObserver(observer)
  }

  @Test func postingFromInsideATaskOfASuspendedSerialQueueReturns() async throws {
    let queue = OwnerScopedQueue(name: "posting", maxConcurrentOperationCount: 1)
    let center = NotificationCenter()
    let journal = Journal<String>()
    let name = Notification.Name("QueueFacadeTests.task")
    let observer = center.addObserver(forName: name, object: nil, queue: queue.operationQueue) { _ in journal.write("observer") }
    try await queue.run(lifetime: .forTests) {
      queue.isSuspended = true
      center.post(name: name, object: nil)
      journal.write("has posted")
    }
    queue.isSuspended = false
    #expect(journal.entries == ["observer", "has posted"])
    center.removeObserver(observer)
  }

  private final class Posting: OwnedAsyncOperation, @unchecked Sendable {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) {
      self.body = body
      super.init(lifetime: .forTests)
    }
    override func run() async throws { body() }
  }

  @Test(arguments: [1, 2, OwnerScopedQueue.defaultMaxConcurrentOperationCount])
  func postingFromInsideAnAsynchronousOperationReturns(limit: Int) {
    let queue = OwnerScopedQueue(name: "posting", maxConcurrentOperationCount: limit)
    let center = NotificationCenter()
    let journal = Journal<String>()
    let name = Notification.Name("QueueFacadeTests.asynchronous")
    let observer = center.addObserver(forName: name, object: nil, queue: queue.operationQueue) { _ in journal.write("observer") }
    let post: @Sendable () -> Void = {
      #expect(OwnerScopedQueue.current === queue)
      center.post(name: name, object: nil)
      journal.write("has posted")
    }
    queue.addOperation(Posting(post))
    queue.addOperation(
      OwnedResultOperation(lifetime: .forTests) { () async throws -> Int in
        post()
        return 1
      })
    #expect(queue.becomesIdle())
    #expect(journal.entries.sorted() == ["has posted", "has posted", "observer", "observer"])
    center.removeObserver(observer)
  }

  /// What nobody waits for is added like anything else.
  @Test func closuresAddedThroughTheFacadeInsideTheQueuesWorkRunInTheirTurn() {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let facade = queue.operationQueue
    let journal = Journal<Int>()
    queue.addOperation {
      facade.addOperation { journal.write(1) }
      facade.addOperation { journal.write(2) }
      journal.write(0)
    }
    #expect(queue.becomesIdle())
    #expect(journal.entries == [0, 1, 2])
  }

  @Test func facadeRunsWhatIsAddedAfterItsQueueHasGone() {
    let facade = OwnerScopedQueue(name: "gone").operationQueue
    let ran = DispatchSemaphore(value: 0)
    facade.addOperation { ran.signal() }
    #expect(ran.waitUntilSignalled())
  }
}
