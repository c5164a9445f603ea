import Foundation
import OwnedOperations

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// What to ask for: a value. Nothing happens until a ``RequestClient`` is given it.
///
/// ```swift
/// var request = Request(.get, "https://example.com/search", parameters: .form(["q": "owls", "tags": ["bird", "night"]]))
/// request.timeout = .seconds(10)
/// request.retry = .exponential(attempts: 3)
/// print(try request.urlRequest(relativeTo: nil).url!)  // https://example.com/search?q=owls&tags%5B%5D=bird&tags%5B%5D=night
/// ```
public struct Request: Sendable {
  /// The methods of HTTP.
  public enum Method: String, Sendable, CaseIterable {
    /// `GET`: asks for a resource.
    case get = "GET"
    /// `HEAD`: asks for what `GET` would answer, without the body.
    case head = "HEAD"
    /// `DELETE`: removes a resource.
    case delete = "DELETE"
    /// `POST`: hands something to a resource.
    case post = "POST"
    /// `PUT`: puts a resource in a place.
    case put = "PUT"
    /// `PATCH`: changes a part of a resource.
    case patch = "PATCH"
    /// `OPTIONS`: asks what may be done.
    case options = "OPTIONS"
  }

  /// How to ask.
  public var method: Method
  /// Absolute, or relative to the client's base, which counts as a directory: below `https://example.com/v1`, `users` is
  /// `https://example.com/v1/users`, and `/users` is `https://example.com/users`.
  ///
  /// What no address can have as it is, such as brackets in a query or an `ä`, is escaped. Escapes that are there stay as they are. Spaces
  /// and control characters are refused.
  public var url: String
  /// What is sent along, in the address or in the body.
  public var parameters: Parameters?
  /// Sent as they are. One given here wins over what the parameters bring, such as `Content-Type`.
  public var headers: [String: String]

  /// Makes a request.
  public init(_ method: Method = .get, _ url: String, parameters: Parameters? = nil, headers: [String: String] = [:]) {
    self.method = method
    self.url = url
    self.parameters = parameters
    self.headers = headers
  }

  /// How long the whole request may take, retries and the waits between them included. It counts from the moment in which its host's limit
  /// lets it be sent. By default 60 s.
  ///
  /// Downloads, and uploads of files, have no such limit unless this is set. They fail when no byte has moved for 60 s.
  public var timeout: Duration {
    get { timeoutIfSet ?? .seconds(60) }
    set { timeoutIfSet = newValue }
  }

  /// Among requests that wait for the same host, those of higher priority are sent first.
  public var priority: Operation.QueuePriority = .normal
  /// Whether a failure is met with another attempt.
  public var retry: RetryPolicy = .none
  /// The answers that are no failure. By default 200 to 299. With `100..<600` every answer is a ``Response``, whose status and headers tell
  /// what the server thinks of the request. None is sent again then because of its status.
  public var acceptedStatus: Range<Int> = 200..<300

  /// Whether equal requests that are under way share one transfer, whoever asks. True by default for GET and HEAD without credentials
  /// (`Authorization`, cookies, a user in the URL). Set it to share those, too, with the same credentials. Other methods never share.
  public var coalesces: Bool {
    get { coalescesIfSet ?? (method == .get || method == .head) }
    set { coalescesIfSet = newValue }
  }

  /// Whether the client's cache is used.
  public var cache: CachePolicy = .none
  /// Whether answers to a request with credentials (`Authorization`, cookies, a user in the URL) may be cached. They are found again
  /// only with the same credentials. What redirects lead to is not cached where cookies go along with one. False by default.
  public var cachesCredentials = false

  var timeoutIfSet: Duration?
  /// How long a transfer without a limit in total may go without a byte. What the system has taken to send counts as
  /// sent: over a slow connection that may be some megabytes ahead of what has arrived.
  var idleLimit = Duration.seconds(60)
  var coalescesIfSet: Bool?
}

extension Request: CustomReflectable {
  /// What is printed of it: all but user and password in the URL, and the values of headers with credentials.
  public var customMirror: Mirror {
    var headers = headers
    for name in headers.keys where Redirects.credentials.contains(where: { $0.lowercased() == name.lowercased() }) { headers[name] = "…" }
    return Mirror(
      self,
      children: [
        "method": method.rawValue, "url": AddressText.shown(url), "parameters": parameters as Any, "headers": headers,
        "timeout": timeoutIfSet as Any, "priority": priority, "retry": retry, "acceptedStatus": acceptedStatus, "coalesces": coalesces,
        "cache": cache,
      ], displayStyle: .struct)
  }
}
