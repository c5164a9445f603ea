import Foundation

/// A file that is being sent, and what it was when that began. Its length has been announced to the server.
struct BodyFile: Sendable {
  private let url: URL
  private let status: stat?

  init(_ url: URL) {
    self.url = url
    status = try? Self.status(of: url)
  }

  private static func status(of url: URL) throws(RequestError) -> stat {
    let path = url.path
    var status = stat()
    guard stat(path, &status) == 0 else { throw .lastFailure(to: "read", path) }
    return status
  }

  var length: Int64 { status.map { Int64($0.st_size) } ?? 0 }

  /// Why nothing comes of it any more though there should be more; nil if something may. Looks at the disk.
  ///
  /// A session opens the file when it is about to send its first bytes. If none is there by then, or there is an error, a session on Linux
  /// waits without end. Once it is open, it is sent whatever comes into its place.
  /// - Parameter sent: how many bytes have been sent.
  func failure(after sent: Int64) -> RequestError? {
    do throws(RequestError) {
      let present = try Self.status(of: url)
      let isSame = status.map { ($0.st_ino, $0.st_dev) == (present.st_ino, present.st_dev) } ?? false
      // Another file may not be the one that is being sent. But it is if that ends just here.
      return (isSame ? present.st_size <= sent && present.st_size < length : present.st_size == sent) ? changed : nil
    } catch {
      return sent == 0 ? error : nil
    }
  }

  var changed: RequestError { .fileSystem(FileFailure(action: "send", path: url.path, code: ENODATA)) }
}
