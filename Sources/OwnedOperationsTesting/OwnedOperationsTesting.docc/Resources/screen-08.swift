import Foundation
import OwnedOperations
import OwnedOperationsTesting
import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// Stands for a server that never answers.
final class Silence: URLProtocol {
  override class func canInit(with request: URLRequest) -> Bool { true }
  override class func canonicalRequest(for request: URLRequest) -> URLRequest { request }
  override func stopLoading() {}
  override func startLoading() {}
}

let time = VirtualTime()
let queue = OwnerScopedQueue(virtualTime: time)
let configuration = URLSessionConfiguration.ephemeral
configuration.protocolClasses = [Silence.self]
let client = RequestClient(baseURL: URL(string: "http://example.test"), configuration: configuration)

let screen = OwnerLifetime(name: "screen")
let report = client.operation(for: Request(.get, "report"), lifetime: screen, decoding: .string)
report.timeout = .seconds(30)
queue.addOperation(report)
time.advance(by: .seconds(29))
print("finished after 29 seconds:", report.isFinished)
time.advance(by: .seconds(1))
if case .cancelled(.timedOut)? = report.outcome { print("timed out after 30") }

// Prints:
// finished after 29 seconds: false
// timed out after 30
