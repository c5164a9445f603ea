/// An operation as a queue's work. It is registered beside its items, see `QueueCore+Operations`; most often it has one.
extension OwnedOperation: WorkRecord {
  var account: WorkAccount { .record }

  func isDead(_ piece: UInt32) -> Bool { load().isFinished }

  func begin(_ piece: UInt32, at index: Int, on worker: AnyObject) {
    let worker = Worker.of(worker)
    if holdsOwner, let hold = beginForOwner() {
      return worker.holdBack(.record(self, piece), at: index, until: hold, otherwise: .countsItself)
    }
    worker.run(self, at: index)
    // May run the owner's deinit, which is no body.
    if holdsOwner, !isExecuting { endForOwner() }
    worker.giveBackIfSpent(self)
  }

  var driverName: String? { label }
}
