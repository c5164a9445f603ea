import Foundation

@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

extension RequestError {
  /// What the error names, for those that explain a bad input.
  var explanation: String? {
    switch self {
    case .invalidURL(let text), .invalidParameters(let text): text
    default: nil
    }
  }
}

/// Why the request is refused before anything is sent.
func refusal(of request: Request, relativeTo base: URL? = nil) -> String? {
  do throws(RequestError) {
    _ = try request.urlRequest(relativeTo: base)
    return nil
  } catch {
    return error.explanation ?? "\(error)"
  }
}

/// Why what an interceptor has made of a request is refused.
func refusal(of urlRequest: URLRequest) -> String? {
  do throws(RequestError) {
    try Request.check(urlRequest)
    return nil
  } catch {
    return error.explanation ?? "\(error)"
  }
}

/// Lets this process have so many files open, connections included, if it may.
func allowOpenFiles(_ count: Int) {
  #if canImport(Darwin)
    let resource = RLIMIT_NOFILE
  #else
    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
  #endif
  var limit = rlimit()
  guard getrlimit(resource, &limit) == 0, limit.rlim_cur < rlim_t(count) else { return }
  limit.rlim_cur = min(limit.rlim_max, rlim_t(count))
  _ = setrlimit(resource, &limit)
}

/// A directory that goes with the test.
final class TemporaryDirectory {
  let url: URL

  init() throws {
    url = FileManager.default.temporaryDirectory.appendingPathComponent("owned-requests-tests-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(at: url) }

  /// What it holds, in order.
  var names: [String] { ((try? FileManager.default.contentsOfDirectory(atPath: url.path)) ?? []).sorted() }

  /// Where downloads of the tests go.
  var target: URL { url.appendingPathComponent("file.bin") }

  func file(_ name: String, _ content: Data) throws -> URL {
    let file = url.appendingPathComponent(name)
    try content.write(to: file)
    return file
  }
}
