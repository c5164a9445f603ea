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
    #expect(delivered.comes())
    #expect(journal.entries == [queue])
    center.removeObserver(observer)
  }

  /// The delegate's calls come on the queue. The request fails (nothing listens on the port of a loopback address that was just closed), and that
  /// is told to the delegate, too.
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
    #expect(delegate.done.comes())
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

  @Test func facadeRunsWhatIsAddedAfterItsQueueHasGone() {
    let facade = OwnerScopedQueue(name: "gone").operationQueue
    let ran = DispatchSemaphore(value: 0)
    facade.addOperation { ran.signal() }
    #expect(ran.comes())
  }
}
