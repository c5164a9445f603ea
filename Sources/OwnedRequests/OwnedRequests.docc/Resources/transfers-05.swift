import Foundation
import OwnedOperations
import OwnedRequests

let client = RequestClient(baseURL: URL(string: "https://example.com/v1"))
let session = OwnerLifetime(name: "session")
let target = URL(fileURLWithPath: "archive.tar")
let interrupted = client.download(Request(.get, "archive.tar"), to: target, lifetime: session)
for await progress in interrupted.progress where progress.bytesReceived > 1_000_000 { break }
session.end()
_ = try? await interrupted.value

let download = client.download(Request(.get, "archive.tar"), to: target, lifetime: .process)
print(try await download.value.status == 206 ? "gone on with" : "started over")
