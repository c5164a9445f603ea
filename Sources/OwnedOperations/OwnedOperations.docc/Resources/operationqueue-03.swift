import Foundation
import OwnedOperations

final class Download: OwnedOperation, @unchecked Sendable {  // stores nothing
  override func perform() throws {
    print("downloading")
  }
}

let session = OwnerLifetime(name: "session")
let queue = OwnerScopedQueue()
queue.name = "network"
queue.maxConcurrentOperationCount = 2
let download = Download(lifetime: session)
let parse = OwnedBlockOperation(lifetime: session) { print("parsing") }
parse.addDependency(download)
queue.addOperations([download, parse], waitUntilFinished: true)

// Prints:
// downloading
// parsing
