import Foundation
import OwnedOperations
import OwnedRequests

let client = RequestClient(baseURL: URL(string: "https://example.com/v1"))
var form = MultipartForm()
form.append(Data("An owl".utf8), name: "title")
try form.append(file: URL(fileURLWithPath: "owl.jpg"), name: "photo", mimeType: "image/jpeg")
let upload = Request(.post, "photos", parameters: .multipart(form))
let response = try await client.response(to: upload, lifetime: .process, decoding: .empty)
print(response.status)
