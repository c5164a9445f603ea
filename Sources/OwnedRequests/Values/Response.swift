import Foundation

/// The beginning of an answer: everything but its body.
public struct ResponseHead: Sendable, Hashable {
  /// The status, such as 200.
  public var status: Int
  /// Look-up is without regard to case.
  public var headers: HeaderFields
  /// Where the answer came from, after redirects.
  public var url: URL

  /// Makes the beginning of an answer, for tests and interceptors.
  public init(status: Int, headers: HeaderFields, url: URL) {
    self.status = status
    self.headers = headers
    self.url = url
  }
}

extension ResponseHead: CustomReflectable {
  /// What is printed of it: all but user and password in the URL.
  public var customMirror: Mirror {
    Mirror(self, children: ["status": status, "headers": headers, "url": AddressText.shown(url)], displayStyle: .struct)
  }
}

/// Where a response came from.
public enum ResponseSource: Sendable, Hashable {
  /// From the server.
  case network
  /// From the cache, without asking the server.
  case cache
  /// From the cache, after the server had said that it is still valid.
  case revalidated
}

/// What a request has brought.
public struct Response<Value: Sendable>: Sendable {
  /// The body, decoded.
  public let value: Value
  /// The status, such as 200.
  public let status: Int
  /// Look-up is without regard to case.
  public let headers: HeaderFields
  /// Where the answer came from, after redirects.
  public let url: URL
  /// Whether the server was asked.
  public let source: ResponseSource
  /// How often the request was sent; zero for an answer from the cache.
  public let attempts: Int

  init(_ value: Value, _ head: ResponseHead, source: ResponseSource, attempts: Int) {
    self.value = value
    status = head.status
    headers = head.headers
    url = head.url
    self.source = source
    self.attempts = attempts
  }
}

extension Response: CustomReflectable {
  /// What is printed of it: all but user and password in the URL.
  public var customMirror: Mirror {
    Mirror(
      self,
      children: [
        "value": value, "status": status, "headers": headers, "url": AddressText.shown(url), "source": source, "attempts": attempts,
      ], displayStyle: .struct)
  }
}

/// How far a transfer has come, in bytes.
public struct TransferProgress: Sendable, Hashable {
  /// How many bytes of the request's body have been sent so far.
  public var bytesSent: Int64 = 0
  /// Nil if it is not known.
  public var bytesToSend: Int64?
  /// How many bytes of the answer's body have come so far.
  public var bytesReceived: Int64 = 0
  /// Nil while, or if, the server has not said it.
  public var bytesToReceive: Int64?

  /// Makes the progress of a transfer that has not begun.
  public init() {}
}
