import Foundation

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// A request that has passed every check.
struct PreparedRequest: Sendable {
  /// Without its body, if that is in a file.
  var urlRequest: URLRequest
  var body: RequestBody
}

extension Request {
  /// What will be sent, before interceptors have seen it. A body that is in a file, or has files in it, is not part of it.
  /// - Throws: ``RequestError/invalidURL(_:)`` or ``RequestError/invalidParameters(_:)``, which name what is wrong.
  /// - Complexity: linear in the parameters and fields.
  public func urlRequest(relativeTo base: URL?) throws(RequestError) -> URLRequest { try prepare(relativeTo: base).urlRequest }

  func prepare(relativeTo base: URL?) throws(RequestError) -> PreparedRequest {
    var url = try absoluteURL(relativeTo: base)
    var body = RequestBody.none
    var contentType: String?
    if let values = parameters?.formValues, method.putsFormsIntoQuery {
      url = try Self.append(try FormEncoding.encode(values), to: url)
    } else if let parameters {
      guard method != .get, method != .head else {
        throw .invalidParameters("parameters: a \(method.rawValue) has no body; use .form, which goes into the query, or another method")
      }
      (body, contentType) = try parameters.body()
    }
    var urlRequest = URLRequest(url: url)
    urlRequest.httpMethod = method.rawValue
    if let contentType {
      if let complaint = HeaderFields.complaint(about: "Content-Type", value: contentType) { throw .invalidParameters(complaint) }
      urlRequest.setValue(contentType, forHTTPHeaderField: "Content-Type")
    }
    try setHeaders(of: &urlRequest)
    if case .data(let data) = body { urlRequest.httpBody = data }
    return PreparedRequest(urlRequest: urlRequest, body: body)
  }

  private func setHeaders(of urlRequest: inout URLRequest) throws(RequestError) {
    var seen: Set<String> = []
    for (name, value) in headers.sorted(by: { $0.key < $1.key }) {
      guard seen.insert(name.lowercased()).inserted else {
        throw .invalidParameters("header \"\(name)\" is given twice, in different cases")
      }
      if let complaint = HeaderFields.complaint(about: name, value: value) { throw .invalidParameters(complaint) }
      urlRequest.setValue(value, forHTTPHeaderField: name)
    }
  }

  /// For what interceptors have made of it.
  static func check(_ urlRequest: URLRequest, with body: RequestBody = .none) throws(RequestError) {
    guard let url = urlRequest.url else { throw .invalidURL("the request has no URL") }
    try check(url)
    if let method = urlRequest.httpMethod, ["GET", "HEAD"].contains(method), !body.isNone {
      throw .invalidParameters("an interceptor has made a \(method) of a request with a body, which a \(method) doesn't have")
    }
    if let method = urlRequest.httpMethod, !HeaderFields.isToken(method) {
      throw .invalidParameters("the method \"\(method)\" has a character that HTTP does not allow, or none")
    }
    for (name, value) in urlRequest.allHTTPHeaderFields ?? [:] {
      if let complaint = HeaderFields.complaint(about: name, value: value) { throw .invalidParameters(complaint) }
    }
  }

  private func absoluteURL(relativeTo base: URL?) throws(RequestError) -> URL {
    guard !url.isEmpty else { throw .invalidURL("the URL is empty") }
    let escaped = AddressEscapes.added(to: url)
    guard !url.utf8.contains(where: { $0 <= 0x20 || $0 == 0x7F }), let parsed = URL(string: escaped) else {
      throw .invalidURL(
        "\"\(AddressText.shown(url))\" is not a URL; spaces and control characters have to be escaped\(AddressText.hint(for: url))")
    }
    if parsed.scheme != nil {
      try Self.check(parsed)
      return parsed
    }
    guard let base else {
      throw .invalidURL("\"\(AddressText.shown(url))\" has no scheme, and the client has no base URL\(AddressText.hint(for: url))")
    }
    guard base.scheme != nil else {
      throw .invalidURL("the base URL \"\(AddressText.shown(base))\" has no scheme\(AddressText.hint(for: base.absoluteString))")
    }
    guard let resolved = URL(string: escaped, relativeTo: Self.directory(base))?.absoluteURL else {
      throw .invalidURL("\"\(AddressText.shown(url))\" can't be resolved against \"\(AddressText.shown(base))\"")
    }
    try Self.check(resolved)
    return resolved
  }

  private static func directory(_ base: URL) -> URL {
    guard var components = URLComponents(url: base, resolvingAgainstBaseURL: true), !components.percentEncodedPath.hasSuffix("/") else {
      return base
    }
    components.percentEncodedPath += "/"
    return components.url ?? base
  }

  private static func check(_ url: URL) throws(RequestError) {
    guard let scheme = url.scheme?.lowercased(), scheme == "http" || scheme == "https" else {
      throw .invalidURL(
        "\"\(AddressText.shown(url))\" is not for HTTP: its scheme has to be http or https\(AddressText.hint(for: url.absoluteString))")
    }
    guard let host = url.host, !host.isEmpty else {
      throw .invalidURL("\"\(AddressText.shown(url))\" names no host\(AddressText.hint(for: url.absoluteString))")
    }
    if let port = url.port, !(1...65535).contains(port) {
      throw .invalidURL("\"\(AddressText.shown(url))\" has the port \(port): ports are from 1 to 65535")
    }
  }

  private static func append(_ query: String, to url: URL) throws(RequestError) -> URL {
    guard !query.isEmpty else { return url }
    guard var components = URLComponents(url: url, resolvingAgainstBaseURL: true) else {
      throw .invalidURL("\"\(AddressText.shown(url))\" can't be taken apart")
    }
    let present = components.percentEncodedQuery ?? ""
    components.percentEncodedQuery = present.isEmpty ? query : "\(present)&\(query)"
    guard let url = components.url else { throw .invalidURL("\"\(AddressText.shown(url))\" can't take a query") }
    return url
  }
}

extension Request.Method {
  var putsFormsIntoQuery: Bool {
    switch self {
    case .get, .head, .delete: true
    case .post, .put, .patch, .options: false
    }
  }
}
