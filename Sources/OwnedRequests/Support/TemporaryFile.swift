import Foundation

/// An empty file that goes with the last reference to it.
final class TemporaryFile: Sendable {
  let url: URL

  init() throws(RequestError) {
    url = FileManager.default.temporaryDirectory.appendingPathComponent("owned-requests-\(UUID().uuidString)")
    do { try Data().write(to: url) } catch { throw .fileSystem(error) }
  }

  deinit { try? FileManager.default.removeItem(at: url) }
}
