/// Work that knows itself what it is: all that the scheduler has to know of it, and how it begins.
///
/// One record may have several items in the ready lists at once. Those of a record that has pieces tell them by their numbers.
protocol WorkRecord: AnyObject, Sendable {
  /// The same for all of its items, and always. Under the queue's lock, and outside of it.
  var account: WorkAccount { get }

  /// Whether nothing would come of an item of the piece if its turn came. Under the queue's lock.
  func isDead(_ piece: UInt32) -> Bool

  /// Begins the piece, whose item the worker has in hand, or finds out that it must not. On the worker's thread, outside locks.
  ///
  /// - It tells the worker when a body of it begins, and at last what has become of the item.
  /// - It may have the worker put the item back instead.
  /// - Parameters:
  ///   - index: of the item, in the worker's batch.
  ///   - worker: of the class that begins work, which no room so low knows; see `Worker.of`.
  func begin(_ piece: UInt32, at index: Int, on worker: AnyObject)

  /// Items of these pieces have been taken out of the ready lists. Outside locks; asked of those only whose account is `pieces`.
  func itemsWereTakenOut(_ pieces: [UInt32])

  /// How it is called in what a driver says; nil if as any work of its owner. Outside locks.
  var driverName: String? { get }
}

/// Who counts work, and what it means to take an item of it away before that has begun.
enum WorkAccount {
  /// The item is the work. Who runs it counts it; who takes it away has cancelled it, and counts it.
  case item
  /// The record counts its pieces. It is told which items were taken away, and cancels their pieces.
  case pieces
  /// The record is cancelled as such, whatever items there are, and counts itself. To take an item away cancels nothing.
  case record

  /// Whether the work tells the queue itself that it is over: nobody else counts it.
  var countsItself: Bool { self != .item }
}

extension WorkRecord {
  func isDead(_ piece: UInt32) -> Bool { false }
  func itemsWereTakenOut(_ pieces: [UInt32]) {}
  var driverName: String? { nil }
}
