import Foundation
import OwnedOperations

final class Download: OwnedOperation, @unchecked Sendable {  // stores nothing
  override func perform() throws {
    throw URLError(.notConnectedToInternet)
  }
}

let session = OwnerLifetime(name: "session")
let queue = OwnerScopedQueue()
queue.name = "network"
queue.maxConcurrentOperationCount = 2
let download = Download(lifetime: session)
let parse = OwnedBlockOperation(lifetime: session) { print("parsing") }
parse.addDependency(download)
parse.dependencyPolicy = .requireSuccess
queue.addOperations([download, parse], waitUntilFinished: true)
if case .failed(let error as URLError) = download.outcome { print(error.code == .notConnectedToInternet) }
print(parse.state, parse.isCancelled)

// Prints:
// true
// finished true
