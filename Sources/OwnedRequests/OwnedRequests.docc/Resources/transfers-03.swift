import Foundation
import OwnedOperations
import OwnedRequests

let client = RequestClient(baseURL: URL(string: "https://example.com/v1"))
var form = MultipartForm()
form.append(Data("An owl".utf8), name: "title")
try form.append(file: URL(fileURLWithPath: "owl.jpg"), name: "photo", mimeType: "image/jpeg")
let upload = Request(.post, "photos", parameters: .multipart(form))
let operation = client.send(upload, lifetime: .process, decoding: .empty) { _ in }
for await progress in operation.progress {
  print("\(progress.bytesSent) of \(form.contentLength) bytes")
}
print(try await operation.value.status)
