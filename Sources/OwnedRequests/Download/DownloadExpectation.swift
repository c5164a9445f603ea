/// What a download has to be. Something else is ``RequestError/unexpectedContent(_:)``, and is not kept.
public struct DownloadExpectation: Sendable, Hashable {
  /// In bytes; nil if any will do.
  public var length: Int64?
  /// The SHA-256 in 64 hexadecimal digits, of either case; nil if any will do.
  public var sha256: String?

  /// Makes an expectation; what is nil will do as it is.
  public init(length: Int64? = nil, sha256: String? = nil) {
    self.length = length
    self.sha256 = sha256
  }

  func check() throws(RequestError) {
    if let length, length < 0 { throw .invalidParameters("expected length \(length) is negative") }
    if let sha256, sha256.utf8.count != 64 || !sha256.allSatisfy(\.isHexDigit) {
      throw .invalidParameters("expected sha256 \"\(sha256)\" is not 64 hexadecimal digits")
    }
  }
}
