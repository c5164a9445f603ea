import Foundation
import OwnedOperations
import OwnedRequests

let client = RequestClient(baseURL: URL(string: "https://example.com/v1"))
let target = URL(fileURLWithPath: "archive.tar")
var request = Request(.get, "archive.tar")
request.retry = .exponential(attempts: 10)
let digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
let download = client.download(request, to: target, lifetime: .process, expecting: DownloadExpectation(sha256: digest))
do { print(try await download.value.value.path) } catch RequestError.unexpectedContent(let explanation) {
  print(explanation)
}
