import Foundation

/// A file that is being sent, and what it was when that began. Its length has been announced to the server.
struct BodyFile: Sendable {
  private let url: URL
  private let status: stat?

  init(_ url: URL) {
    self.url = url
    status = Self.status(of: url)
  }

  private static func status(of url: URL) -> stat? {
    var status = stat()
    return stat(url.path, &status) == 0 ? status : nil
  }

  var length: Int64 { status.map { Int64($0.st_size) } ?? 0 }

  /// Nil if another file has come into its place, or none is there: the one that is being sent lives on until it is closed.
  var presentLength: Int64? {
    guard let status, let present = Self.status(of: url), (present.st_ino, present.st_dev) == (status.st_ino, status.st_dev) else {
      return nil
    }
    return Int64(present.st_size)
  }

  var changed: RequestError { .fileSystem(FileFailure(action: "send", path: url.path, code: ENODATA)) }
}
