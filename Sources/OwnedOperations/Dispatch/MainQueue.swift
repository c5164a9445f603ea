import Dispatch
import Foundation

/// Which code runs on the main queue, and which queue is the main one. Without an Objective-C runtime, `DispatchQueue.main` is another
/// object each time.
///
/// To run on the main queue is more than to be on the main thread. On Linux, in a program whose `main` is asynchronous, the main thread has
/// gone, and the main queue runs on other threads.
enum MainQueue {
  private static let key = DispatchSpecificKey<Bool>()
  private static let mark: Void = DispatchQueue.main.setSpecific(key: key, value: true)

  static var isCurrent: Bool {
    if Thread.isMainThread { return true }
    mark
    return DispatchQueue.getSpecific(key: key) ?? false
  }

  /// Tells the queue apart from others, as long as it is held: one for the main queue, whatever object it is this time.
  static func identity(of queue: DispatchQueue) -> ObjectIdentifier { ObjectIdentifier(isMain(queue) ? key : queue) }

  static func isMain(_ queue: DispatchQueue) -> Bool {
    mark
    return queue.getSpecific(key: key) ?? false
  }
}
