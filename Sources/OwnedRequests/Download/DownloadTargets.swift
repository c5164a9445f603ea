import Foundation

/// The places that downloads of this process write to, each held by one of them.
final class DownloadTargets: Sendable {
  /// Given up with the last reference to it.
  final class Reservation: Sendable {
    private let path: String
    private let targets: DownloadTargets

    fileprivate init(_ path: String, _ targets: DownloadTargets) {
      self.path = path
      self.targets = targets
    }

    deinit { _ = targets.paths.withLock { $0.remove(path) } }
  }

  static let shared = DownloadTargets()

  private let paths = Guarded<Set<String>>([])

  /// - Returns: nil if another download has it.
  func reserve(_ file: URL) -> Reservation? {
    // By whichever links its folder is reached.
    let path = file.deletingLastPathComponent().resolvingSymlinksInPath().appendingPathComponent(file.lastPathComponent).path
    return paths.withLock { $0.insert(path).inserted } ? Reservation(path, self) : nil
  }
}
