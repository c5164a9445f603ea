import Foundation

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

extension ResponseHead {
  init(_ response: HTTPURLResponse) {
    let given = response.allHeaderFields
    var fields = HeaderFields(capacity: given.count)
    for (name, value) in given {
      if let name = name as? String, let value = value as? String { fields[name] = value }
    }
    self.init(status: response.statusCode, headers: fields, url: response.url ?? URL(fileURLWithPath: "/"))
  }

  /// How many bytes the body has; nil if the server doesn't say, or they are compressed.
  var contentLength: Int64? {
    guard headers["Content-Encoding"] == nil else { return nil }
    return headers["Content-Length"].flatMap { Int64($0) }.flatMap { $0 >= 0 ? $0 : nil }
  }
}

extension URLError {
  /// On Linux most errors come as `NSError`. The address that failed is there without user and password: errors are kept in logs.
  init(wrapping error: any Error) {
    let error = error as NSError
    let code = error.domain == NSURLErrorDomain ? URLError.Code(rawValue: error.code) : nil
    self = URLError(code ?? .unknown, userInfo: AddressText.withoutUsers(in: error.userInfo))
  }
}
