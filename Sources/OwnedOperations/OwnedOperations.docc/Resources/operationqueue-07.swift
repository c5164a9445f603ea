import Foundation
import OwnedOperations

let opened = Notification.Name("opened")
let queue = OwnerScopedQueue(name: "events")
let observer = NotificationCenter.default.addObserver(forName: opened, object: nil, queue: queue.operationQueue) { _ in
  print("opened, on \(OwnerScopedQueue.current!.name!)")
}
NotificationCenter.default.post(name: opened, object: nil)
queue.waitUntilAllOperationsAreFinished()
NotificationCenter.default.removeObserver(observer)

// Prints:
// opened, on events
