import OwnedOperations
import Synchronization

/// A cell of the feed: two pictures are to be shown in it, while it is there.
final class Cell: OperationOwner, Sendable {
  static let pictureCount = 2

  let lifetimeToken = OwnerLifetime.Token()
  /// What the engine has tied to the cell. Goes with it.
  let attachment: (any Sendable)?
  private let shown = Atomic<Int>(0)
  private let done: Countdown?

  /// - Parameter done: counted down when all pictures have been shown.
  init(attachment: (any Sendable)?, done: Countdown?) {
    self.attachment = attachment
    self.done = done
  }

  func show(_ pixels: [UInt8]) {
    blackHole(pixels.first)
    if shown.add(1, ordering: .acquiringAndReleasing).newValue == Self.pictureCount { done?.countDown() }
  }
}
