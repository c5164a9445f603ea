import Foundation

/// Closes files on no thread of the caller's: that of somebody who has ended a download, and must not wait for the disk.
///
/// A process that exits waits for what is being closed, for a second at most. So what was stopped just before can be gone on with.
final class DownloadClosings: Sendable {
  static let shared: DownloadClosings = {
    let closings = DownloadClosings()
    atexit {
      let patience = DownloadClosings.patience.withLock { $0 }
      _ = DownloadClosings.shared.group.wait(timeout: .now() + patience)
    }
    return closings
  }()

  /// For tests: how long an exit waits at most.
  static let patience = Guarded(DispatchTimeInterval.seconds(1))

  private let group = DispatchGroup()

  func perform(_ close: @escaping @Sendable () -> Void) {
    // A queue for each: a disk that holds one up is to hold up no other, nor decoders that block any.
    DispatchQueue(label: "OwnedRequests.closings", qos: .userInitiated).async(group: group, execute: close)
  }
}
