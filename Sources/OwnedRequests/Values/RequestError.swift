import Foundation
import OwnedOperations

/// Why a request did not bring what was asked for.
///
/// An error holds the status and the body, as its cases say. The headers, and the URL that answered in the end, are beside it:
/// - a ``RequestFailure`` has both, and is what ``RequestClient/response(to:lifetime:decoding:throwing:)`` throws;
/// - ``RequestOperation/head`` has them, of whatever the server said last, before a handler or a task hears of the error;
/// - an interceptor is given them with each failure;
/// - a request that accepts every status fails with none, and its ``Response`` has them.
///
/// ```swift
/// let client = RequestClient(baseURL: URL(string: "https://example.com"))
/// let operation = client.send(Request(.get, "news"), lifetime: .process, decoding: .string) { _ in }
/// do { print(try await operation.value.value) } catch RequestError.status(429, _) {
///   print("busy until", operation.head?.headers["Retry-After"] ?? "later")
/// }
/// ```
public enum RequestError: Error, Sendable {
  /// Not the URL of something that HTTP can bring. Nothing was sent.
  case invalidURL(String)
  /// A parameter, a header, or a file that can't be sent; the text names it. Nothing was sent.
  case invalidParameters(String)
  /// The connection was refused, broke, was never made.
  case transport(URLError)
  /// The request took longer than its ``Request/timeout``, or no byte came for too long.
  case timedOut
  /// The server answered with a status outside ``Request/acceptedStatus``. The body is what it said, up to ``RequestError/bodyLimit``
  /// bytes; for the headers see ``RequestOperation/head``.
  case status(Int, body: Data)
  /// The answer is not what the decoder expects. The body is the answer, up to ``RequestError/bodyLimit`` bytes; for status and
  /// headers see ``RequestOperation/head``.
  case decoding(any Error, body: Data)
  /// A file could not be read or written. Or, in a download, the disk did not answer for the longest time that may pass without a byte.
  case fileSystem(any Error)
  /// The request was cancelled.
  case cancelled(CancellationReason)
  /// An interceptor refused to send the request.
  case interceptor(any Error)
  /// What was downloaded is not what was expected: its length, its checksum, or the part of it that the server sent.
  case unexpectedContent(String)

  /// How many bytes of an answer an error keeps: one mebibyte. If nobody accepts the status, what the server sends beyond that is not
  /// waited for. The request is over then, and its connection is closed.
  public static let bodyLimit = 1 << 20

  /// So much of a body as an error keeps, without what holds the rest in memory.
  static func kept(_ body: Data) -> Data { body.count <= bodyLimit ? body : Data(body.prefix(bodyLimit)) }
}

extension RequestError: CustomStringConvertible {
  /// What was attempted, what is wrong with it, and, where something can be done, what.
  public var description: String {
    switch self {
    case .invalidURL(let explanation): explanation
    case .invalidParameters(let explanation): explanation
    case .transport(let error): "the connection failed: \(error.localizedDescription) (URLError \(error.errorCode))"
    case .timedOut: "the request timed out"
    case .status(let status, let body): "the server answered with status \(status) and \(Self.length(of: body))"
    case .decoding(let error, let body): "the answer of \(Self.length(of: body)) can't be decoded: \(error)"
    case .fileSystem(let error): "a file can't be read or written: \(error)"
    case .cancelled(let reason): "the request was cancelled: \(reason)"
    case .interceptor(let error): "an interceptor refused the request: \(error)"
    case .unexpectedContent(let explanation): explanation
    }
  }

  private static func length(of body: Data) -> String { body.count < bodyLimit ? "\(body.count) bytes" : "\(bodyLimit) bytes or more" }
}
