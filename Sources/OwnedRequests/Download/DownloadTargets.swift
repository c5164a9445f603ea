import Foundation

/// The places that downloads of this process write to, each held by one of them. They are the target, and the files beside it that become
/// the target. A download to one of those would be taken for the other's content.
final class DownloadTargets: Sendable {
  /// Given up with the last reference to it.
  final class Reservation: Sendable {
    private let reserved: [String]
    private let targets: DownloadTargets

    fileprivate init(_ reserved: [String], _ targets: DownloadTargets) {
      self.reserved = reserved
      self.targets = targets
    }

    deinit { targets.paths.withLock { $0.subtract(reserved) } }
  }

  static let shared = DownloadTargets()

  private let paths = Guarded<Set<String>>([])

  /// - Returns: nil if another download has one of them.
  func reserve(_ file: URL) -> Reservation? {
    // By whichever links its folder is reached.
    let path = file.deletingLastPathComponent().resolvingSymlinksInPath().appendingPathComponent(file.lastPathComponent).path
    let wanted = [path, path + ".part", path + ".part.info"]
    let isFree = paths.withLock { paths in
      guard paths.isDisjoint(with: wanted) else { return false }
      paths.formUnion(wanted)
      return true
    }
    return isFree ? Reservation(wanted, self) : nil
  }
}
