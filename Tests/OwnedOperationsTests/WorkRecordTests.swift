import Foundation
import Testing

@testable import OwnedOperations

/// A kind of work that the library doesn't know: what the scheduler does with it, it does for what the record says of itself.
@Suite struct WorkRecordTests {
  private final class Record: WorkRecord {
    let account: WorkAccount
    let (begun, takenOut) = (Journal<UInt32>(), Journal<[UInt32]>())
    private let hasBegun = Event()
    /// Asked before a piece begins.
    private let reasonToHoldBack: @Sendable () -> OwnerHold?

    init(_ account: WorkAccount, _ reasonToHoldBack: @escaping @Sendable () -> OwnerHold? = { nil }) {
      self.account = account
      self.reasonToHoldBack = reasonToHoldBack
    }

    func begin(_ piece: UInt32, at index: Int, on worker: AnyObject) {
      let worker = Worker.of(worker)
      if let hold = reasonToHoldBack() { return worker.holdBack(.record(self, piece), at: index, until: hold) }
      worker.beginJob()
      begun.write(piece)
      hasBegun.happen()
      worker.end(index, account.countsItself ? .countsItself : .succeeded)
    }

    func itemsWereTakenOut(_ pieces: [UInt32]) { takenOut.write(pieces) }

    func begins() -> Bool { hasBegun.happens() }
  }

  private let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
  private let owner = TokenOwner()

  private func submit(_ record: Record, _ pieces: UInt32...) {
    for piece in pieces { queue.submit(.record(record, piece), lifetime: Borrowed(owner.lifetime), priority: .normal) }
  }

  /// A pending job has no other memory of the library's: a payload of more would cost each.
  @Test func aWorkItemTakes24Bytes() { #expect(MemoryLayout<WorkItem>.stride == 24) }

  @Test func itsPiecesBeginInOrder() {
    let record = Record(.item)
    submit(record, 3, 1, 2)
    #expect(queue.becomesIdle())
    #expect(record.begun.entries == [3, 1, 2])
    #expect(queue.statistics.succeeded == 3)
  }

  /// Whoever takes the items away has cancelled the work, and counts it.
  @Test func whatIsItsItemIsCancelledWithThat() {
    let record = Record(.item)
    queue.isSuspended = true
    submit(record, 1, 2, 3)
    queue.cancelOperations(ownedBy: owner.lifetime)
    #expect(queue.statistics.cancelled == 3)
    #expect(record.takenOut.entries.isEmpty)
    #expect(queue.becomesIdle())
  }

  /// Those that follow each other are told together, and counted by nobody but the record.
  @Test func ofPiecesThatAreTakenAwayTheRecordIsTold() {
    let (record, other, job) = (Record(.pieces), Record(.pieces), Record(.item))
    queue.isSuspended = true
    submit(record, 1, 2)
    submit(other, 7)
    submit(record, 3)
    submit(job, 0)
    submit(record, 4)
    queue.cancelOperations(ownedBy: owner.lifetime)
    #expect(record.takenOut.entries == [[1, 2], [3, 4]])
    #expect(other.takenOut.entries == [[7]])
    #expect(queue.statistics.cancelled == 1 && queue.statistics.pending == 5)
  }

  @Test func whatIsCancelledAsSuchIsNeitherToldNorCounted() {
    let record = Record(.record)
    queue.isSuspended = true
    submit(record, 1, 2)
    queue.cancelOperations(ownedBy: owner.lifetime)
    #expect(record.takenOut.entries.isEmpty)
    #expect(queue.statistics.cancelled == 0 && queue.statistics.pending == 2)
  }

  /// All that was pending is cancelled while a worker has the item in hand, and can't begin it.
  @Test(arguments: [WorkAccount.item, .record]) func whatComesBackAfterACancelGoesByItsAccount(account: WorkAccount) {
    let isFirst = Mutexed(true)
    let record = Record(account) { [queue, owner] in
      guard isFirst.value else { return nil }
      isFirst.value = false
      queue.cancelOperations(ownedBy: owner.lifetime)
      return OwnerHold.of(owner)
    }
    submit(record, 5)
    if account == .record { #expect(record.begins()) } else { #expect(queue.becomesIdle()) }
    #expect(record.begun.entries == (account == .record ? [5] : []))
    #expect(queue.statistics.cancelled == (account == .record ? 0 : 1))
  }
}
