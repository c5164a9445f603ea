import Foundation
import OwnedOperations
import OwnedRequests

let client = RequestClient(baseURL: URL(string: "https://example.com/v1"))
let session = OwnerLifetime(name: "session")
let user = Request(.post, "login", parameters: .json(["name": "Ann"]))
let logIn = client.operation(for: user, lifetime: session, decoding: .empty)
let fetch = client.operation(for: Request(.get, "messages"), lifetime: session, decoding: .json([String].self))
fetch.addDependency(logIn)
fetch.dependencyPolicy = .requireSuccess
try OwnerScopedQueue().enqueue([logIn, fetch])
print(try await fetch.value.value)
