import Foundation

extension OwnedOperation {
  final func setPriority(_ priority: Operation.QueuePriority) {
    guard priority != load().priority else { return }
    setFoundationPriority(priority)
    let change = update { word in
      guard word.priority != priority else { return nil }
      var new = word
      new.priority = priority
      return new
    }
    guard let change else { return }
    react(to: change)
    if change.new.contains(.attached) {
      lock.withLock { scheduler }?.operation(self, didChangePriorityFrom: change.old.priority)
    }
  }
}
