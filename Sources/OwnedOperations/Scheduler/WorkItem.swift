/// One piece of work that a queue can start.
///
/// A case is a shape, and says nothing of whose work it is. The first four are closures and the like: there are too many of them, and they
/// are too small, to have an object each. Everything else is a `WorkRecord`, which says for itself what the scheduler has to know, and
/// begins itself.
///
/// 24 bytes in an array, of which a pending job has no other memory of the library's.
enum WorkItem {
  /// Called with the object that the owner's lifetime is bound to.
  case ownerBlock(ErasedOwnerBody.Body)
  case block(@Sendable () -> Void)
  /// What it returns is released when it is over: what runs then is no body.
  case leavingBlock(@Sendable () -> AnyObject?)
  /// A step of a Swift task.
  case taskStep(UnownedJob)
  /// A piece of the record's; 0 if it has no pieces.
  case record(any WorkRecord, UInt32)
}

// MARK: What is asked of it

extension WorkItem {
  var account: WorkAccount { if case .record(let record, _) = self { record.account } else { .item } }

  /// Whether nothing would come of it if its turn came.
  var isDead: Bool { if case .record(let record, let piece) = self { record.isDead(piece) } else { false } }

  /// The piece of a record that it is, if it is one.
  var piece: (record: any WorkRecord, number: UInt32)? { if case .record(let record, let number) = self { (record, number) } else { nil } }
}
