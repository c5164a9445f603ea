import Foundation
import OwnedOperations
import OwnedRequests

struct Story: Decodable, Sendable {
  let title: String
}

let client = RequestClient(baseURL: URL(string: "https://example.com/v1"))
var request = Request(.get, "news", parameters: .form(["page": 2, "tags": ["birds", "owls"]]))
request.timeout = .seconds(10)
request.retry = .exponential(attempts: 3)
do {
  let response = try await client.response(to: request, lifetime: .process, decoding: .json([Story].self))
  for story in response.value { print(story.title) }
} catch RequestError.status(let status, let body) {
  print("refused with \(status):", String(decoding: body, as: UTF8.self))
} catch {
  print("\(error)")
}
