import Foundation
import OwnedOperations
import OwnedRequests

let directory = FileManager.default.temporaryDirectory.appendingPathComponent("news")
let cache = try ResponseCache(directory: directory, memoryLimit: 10_000_000, diskLimit: 100_000_000)
let client = RequestClient(baseURL: URL(string: "https://example.com/v1"), cache: cache)
var request = Request(.get, "news")
request.cache = .revalidate
let response = try await client.response(to: request, lifetime: .process, decoding: .string)
print(response.source)
cache.removeExpired()
do { try await cache.flush() } catch { print("not kept on the disk: \(error)") }
