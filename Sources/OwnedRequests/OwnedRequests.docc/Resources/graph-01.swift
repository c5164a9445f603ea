import Foundation
import OwnedOperations
import OwnedRequests

let client = RequestClient(baseURL: URL(string: "https://example.com/v1"))
let session = OwnerLifetime(name: "session")
let requests = (1...5).map { page in Request(.get, "news", parameters: .form(["page": .integer(page)])) }
let pages = try await client.responses(to: requests, lifetime: session, decoding: .string)
for page in pages { print(page.url, page.value.count) }
