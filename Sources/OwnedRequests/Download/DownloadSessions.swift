import Foundation

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// The sessions of downloads, one for each that is under way, because it may have to wait for the disk. The next download goes on with
/// the session of one that is over, and with its connection.
///
/// One that was told to stop a task is not used again: it discards what comes.
final class DownloadSessions: SessionSource {
  /// Each keeps a connection, as long as the server does.
  private static let mostIdle = 32

  private let configuration: URLSessionConfiguration
  private let idle = Guarded<[TransferSession]>([])

  /// - Parameter configuration: copied: whoever has it may change it for another client.
  init(configuration: URLSessionConfiguration) {
    self.configuration = (configuration.copy() as? URLSessionConfiguration) ?? configuration
  }

  func take() -> TransferSession {
    idle.withLock { $0.popLast() } ?? TransferSession(configuration: configuration, isBacklogLimited: true)
  }

  func giveBack(_ session: TransferSession) {
    guard !session.isSpent else { return }
    idle.withLock { if $0.count < Self.mostIdle { $0.append(session) } }
  }
}
