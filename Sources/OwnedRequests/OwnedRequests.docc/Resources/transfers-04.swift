import Foundation
import OwnedOperations
import OwnedRequests

let client = RequestClient(baseURL: URL(string: "https://example.com/v1"))
let session = OwnerLifetime(name: "session")
let target = URL(fileURLWithPath: "archive.tar")
let download = client.download(Request(.get, "archive.tar"), to: target, lifetime: session)
print(try await download.value.value.path)
