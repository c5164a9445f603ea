import Foundation
import OwnedOperations
import OwnedOperationsTesting
import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// Answers in the place of a server.
final class Answers: URLProtocol {
  override class func canInit(with request: URLRequest) -> Bool { true }
  override class func canonicalRequest(for request: URLRequest) -> URLRequest { request }
  override func stopLoading() {}

  override func startLoading() {
    guard let url = request.url, let head = HTTPURLResponse(url: url, statusCode: 200, httpVersion: nil, headerFields: nil) else { return }
    client?.urlProtocol(self, didReceive: head, cacheStoragePolicy: .notAllowed)
    client?.urlProtocol(self, didLoad: Data("42".utf8))
    client?.urlProtocolDidFinishLoading(self)
  }
}

final class Screen: Sendable {
  func show(_ text: String) { print(text) }
}

let time = VirtualTime()
let configuration = URLSessionConfiguration.ephemeral
configuration.protocolClasses = [Answers.self]
let client = RequestClient(
  baseURL: URL(string: "http://example.test"), queue: OwnerScopedQueue(virtualTime: time), configuration: configuration)

var screen: Screen? = Screen()
if let screen {
  client.send(Request(.get, "answer"), owner: screen, decoding: .string) { screen, result in
    if case .success(let response) = result { screen.show(response.value) }
  }
}
// The transfer takes real time. When the answer is there, its handler waits for the test.
while time.pending.isEmpty { Thread.sleep(forTimeInterval: 0.001) }
print("the answer has come")
screen = nil
time.runUntilIdle()
print("nothing was shown")

// Prints:
// the answer has come
// nothing was shown
