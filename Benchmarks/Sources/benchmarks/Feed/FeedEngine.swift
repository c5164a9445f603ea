import Dispatch
import Foundation
import OwnedOperations
import Synchronization

/// Who decodes the pictures of the feed.
protocol FeedEngine: AnyObject {
  var name: String { get }
  /// What a cell carries for this engine, made with the cell.
  func makeAttachment() -> (any Sendable)?
  /// Has the picture decoded, and shown if the cell is still there.
  func decode(_ picture: PackedPicture, for cell: Cell, count: DecodeCount)
  /// Returns when nothing is left to do.
  func waitUntilIdle()
}

/// How many pictures have been decoded, for a cell that was there or for none.
final class DecodeCount: Sendable {
  private let decoded = Atomic<Int>(0)
  var value: Int { decoded.load(ordering: .acquiring) }

  func decode(_ picture: PackedPicture) -> [UInt8] {
    decoded.add(1, ordering: .relaxed)
    guard let pixels = picture.decode() else { preconditionFailure("a picture does not decode to what was packed") }
    return pixels
  }
}

// MARK: GCD

/// Blocks hold the cell weakly, and look for it when they have something to show.
final class PlainGCDFeed: FeedEngine {
  let name = "GCD, weak at the end"
  private let queue = DispatchQueue(label: "decoding", attributes: .concurrent)

  func makeAttachment() -> (any Sendable)? { nil }

  func decode(_ picture: PackedPicture, for cell: Cell, count: DecodeCount) {
    queue.async { [weak cell] in
      let pixels = count.decode(picture)
      cell?.show(pixels)
    }
  }

  func waitUntilIdle() { queue.sync(flags: .barrier) {} }
}

/// Blocks look for the cell before they do anything.
final class CheckingGCDFeed: FeedEngine {
  let name = "GCD, weak check first"
  private let queue = DispatchQueue(label: "decoding", attributes: .concurrent)

  func makeAttachment() -> (any Sendable)? { nil }

  func decode(_ picture: PackedPicture, for cell: Cell, count: DecodeCount) {
    queue.async { [weak cell] in
      guard let cell else { return }
      cell.show(count.decode(picture))
    }
  }

  func waitUntilIdle() { queue.sync(flags: .barrier) {} }
}

/// Blocks look the cell's identifier up before they do anything.
final class SafeDispatchFeed: FeedEngine {
  let name = "safe-dispatch wrapper"
  private let queue = DispatchQueue(label: "decoding", attributes: .concurrent)

  private final class Registration: Sendable {
    let identifier = SafeDispatch.shared.register()
    deinit { SafeDispatch.shared.unregister(identifier) }
  }

  func makeAttachment() -> (any Sendable)? { Registration() }

  func decode(_ picture: PackedPicture, for cell: Cell, count: DecodeCount) {
    guard let registration = cell.attachment as? Registration else { return }
    queue.safeAsync(registration.identifier) { [weak cell] in
      let pixels = count.decode(picture)
      cell?.show(pixels)
    }
  }

  func waitUntilIdle() { queue.sync(flags: .barrier) {} }
}

// MARK: OperationQueue

/// Cells keep their operations, and cancel them in their deinit.
final class OperationQueueFeed: FeedEngine {
  let name = "OperationQueue, cancel in deinit"
  private let queue = OperationQueue()

  private final class Operations: Sendable {
    private let operations = Mutex<[Operation]>([])
    func append(_ operation: Operation) { operations.withLock { $0.append(operation) } }
    deinit {
      for operation in operations.withLock({ $0 }) { operation.cancel() }
    }
  }

  func makeAttachment() -> (any Sendable)? { Operations() }

  func decode(_ picture: PackedPicture, for cell: Cell, count: DecodeCount) {
    let operation = BlockOperation { [weak cell] in
      let pixels = count.decode(picture)
      cell?.show(pixels)
    }
    (cell.attachment as? Operations)?.append(operation)
    queue.addOperation(operation)
  }

  func waitUntilIdle() { queue.waitUntilAllOperationsAreFinished() }
}

// MARK: Ours

final class OwnedFeed: FeedEngine {
  let name: String
  private let queue = OwnerScopedQueue(name: "decoding")

  init(_ fairness: OwnerFairness) {
    name = fairness == .roundRobin ? "async(owner:), roundRobin" : "async(owner:), firstComeFirstServed"
    queue.ownerFairness = fairness
  }

  func makeAttachment() -> (any Sendable)? { nil }

  func decode(_ picture: PackedPicture, for cell: Cell, count: DecodeCount) {
    queue.async(owner: cell) { cell in
      cell.show(count.decode(picture))
    }
  }

  func waitUntilIdle() { queue.waitUntilAllOperationsAreFinished() }
}
