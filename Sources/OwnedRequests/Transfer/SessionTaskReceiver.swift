import Foundation

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// Who hears what becomes of a task. Called in order. Before the last call this may be on the session's own thread, where no task may be
/// made, and nothing be waited for.
protocol SessionTaskReceiver: AnyObject, Sendable {
  func taskDidReceive(_ head: ResponseHead)
  func taskDidReceive(_ data: Data)
  func taskDidSend(_ bytes: Int64, of total: Int64?)
  /// What was received is not being dealt with. Any thread; must not wait.
  /// - Returns: true if the task is to be cancelled, because another can go on where it stops. What was received before is still dealt
  ///   with, and `taskDidComplete` comes after it.
  func taskIsStalled() -> Bool
  /// The last call.
  func taskDidComplete(_ error: URLError?)
}
