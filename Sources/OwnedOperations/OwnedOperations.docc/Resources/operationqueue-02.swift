import Foundation
import OwnedOperations

final class Download: Operation, @unchecked Sendable {  // stores nothing
  override func main() {
    guard !isCancelled else { return }
    print("downloading")
  }
}

let queue = OwnerScopedQueue()
queue.name = "network"
queue.maxConcurrentOperationCount = 2
let download = Download()
let parse = BlockOperation { print("parsing") }
parse.addDependency(download)
queue.addOperations([download, parse], waitUntilFinished: true)

// Prints:
// downloading
// parsing
