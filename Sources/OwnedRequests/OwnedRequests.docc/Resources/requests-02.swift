import Foundation
import OwnedOperations
import OwnedRequests

struct Story: Decodable, Sendable {
  let title: String
}

let client = RequestClient(baseURL: URL(string: "https://example.com/v1"))
let request = Request(.get, "news", parameters: .form(["page": 2, "tags": ["birds", "owls"]]))
let response = try await client.response(to: request, lifetime: .process, decoding: .json([Story].self))
for story in response.value { print(story.title) }
