import Foundation
import OwnedOperations
import OwnedRequests

let client = RequestClient(baseURL: URL(string: "https://example.com/v1"))
let response = try await client.response(to: Request(.get, "news"), lifetime: .process, decoding: .string)
print(response.status, response.value)
