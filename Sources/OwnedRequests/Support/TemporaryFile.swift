import Foundation

/// An empty file that goes with the last reference to it. Nobody but the user may read it.
final class TemporaryFile: Sendable {
  let url: URL

  init() throws(RequestError) {
    url = FileManager.default.temporaryDirectory.appendingPathComponent("owned-requests-\(UUID().uuidString)")
    // What is there already, a link included, is somebody else's.
    let file = open(url.path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
    guard file >= 0 else { throw .lastFailure(to: "make", url.path) }
    close(file)
  }

  deinit { try? FileManager.default.removeItem(at: url) }
}
