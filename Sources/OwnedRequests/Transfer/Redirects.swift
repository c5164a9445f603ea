import Foundation

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// What is sent once.
struct Outgoing: Sendable {
  var urlRequest: URLRequest
  var body: RequestBody
  /// The validators of an answer that is stored. The request has them where they hold.
  var validators: Validators?

  /// Whether the request says who asks. Its answer is for nobody else.
  var hasCredentials: Bool {
    urlRequest.url?.user != nil || Redirects.credentials.contains { urlRequest.value(forHTTPHeaderField: $0) != nil }
  }
}

/// What an address has called an answer: a tag, a date, or both. Another address may call something else the same.
///
/// An object, because tables keep the room of what once was in them, and most requests have none.
final class Validators: Hashable, Sendable {
  let address: String
  let tag: String?
  let date: String?

  init(address: String, tag: String?, date: String?) {
    (self.address, self.tag, self.date) = (address, tag, date)
  }

  static func == (first: Validators, second: Validators) -> Bool {
    (first.address, first.tag, first.date) == (second.address, second.tag, second.date)
  }

  func hash(into hasher: inout Hasher) {
    hasher.combine(address)
    hasher.combine(tag)
    hasher.combine(date)
  }

  /// Without the fragment, which no server sees.
  static func address(_ url: URL) -> String { String(url.absoluteString.prefix { $0 != "#" }) }

  /// Has the request ask whether the answer is still valid, if it goes to the address that gave it. Otherwise it asks for all.
  func apply(to urlRequest: inout URLRequest) {
    let isThere = urlRequest.url.map(Self.address) == address
    urlRequest.setValue(isThere ? tag : nil, forHTTPHeaderField: "If-None-Match")
    urlRequest.setValue(isThere ? date : nil, forHTTPHeaderField: "If-Modified-Since")
  }
}

/// Where answers send a request on to.
enum Redirects {
  static let limit = 10
  static let credentials = ["Authorization", "Cookie", "Proxy-Authorization"]
  /// What is meant for one origin and no other.
  private static let bound = credentials + ["Host"]

  /// What is said of a body. Without one, some servers would wait for what was announced.
  private static let ofBodies = ["Content-Type", "Content-Encoding", "Content-Language", "Content-Location", "Expect"]

  /// The next request; nil if the answer is no redirect, or leads to something that is not HTTP.
  ///
  /// 303 makes a GET of everything but HEAD, and 301 and 302 of POST, as browsers do. 307 and 308 keep method and body. A change of scheme,
  /// host or port drops credentials, and a `Host` that was set.
  static func next(after outgoing: Outgoing, _ head: ResponseHead) -> Outgoing? {
    guard [301, 302, 303, 307, 308].contains(head.status), let location = head.headers["Location"],
      let current = outgoing.urlRequest.url, let url = URL(string: AddressEscapes.added(to: location), relativeTo: current)?.absoluteURL,
      let scheme = url.scheme?.lowercased(), scheme == "http" || scheme == "https", let host = url.host, !host.isEmpty
    else { return nil }
    var next = outgoing
    next.urlRequest.url = url
    let method = outgoing.urlRequest.httpMethod ?? "GET"
    if (head.status == 303 && method != "HEAD") || (head.status < 303 && method == "POST") {
      next.urlRequest.httpMethod = "GET"
      next.urlRequest.httpBody = nil
      next.body = .none
      for name in ofBodies {
        next.urlRequest.setValue(nil, forHTTPHeaderField: name)
      }
    }
    if origin(of: url) != origin(of: current) {
      for name in bound { next.urlRequest.setValue(nil, forHTTPHeaderField: name) }
    }
    next.validators?.apply(to: &next.urlRequest)
    return next
  }

  /// Scheme, host and port: `http://example.com:80`.
  static func origin(of url: URL) -> String {
    let scheme = url.scheme?.lowercased() ?? ""
    return "\(scheme)://\(url.host?.lowercased() ?? ""):\(url.port ?? (scheme == "https" ? 443 : 80))"
  }
}
