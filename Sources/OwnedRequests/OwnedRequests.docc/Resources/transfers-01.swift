import Foundation
import OwnedOperations
import OwnedRequests

let client = RequestClient(baseURL: URL(string: "https://example.com/v1"))
let photo = URL(fileURLWithPath: "owl.jpg")
let upload = Request(.put, "photos/owl", parameters: .file(photo, contentType: "image/jpeg"))
let response = try await client.response(to: upload, lifetime: .process, decoding: .empty)
print(response.status)
