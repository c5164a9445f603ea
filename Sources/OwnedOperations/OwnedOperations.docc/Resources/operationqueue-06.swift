import Foundation
import OwnedOperations

let session = OwnerLifetime(name: "session")
let queue = OwnerScopedQueue()
let download = OwnedBlockOperation(lifetime: session) { print("downloading") }
let parse = OwnedBlockOperation(lifetime: session) { print("parsing") }
download.name = "download"
parse.name = "parse"
parse.addDependency(download)
download.addDependency(parse)

do {
  try queue.enqueue([download, parse])
} catch OwnerScopedQueueError.dependencyCycle(let names) {
  print("a cycle of \(names.count) operations")
}
print(queue.operationCount)

// Prints:
// a cycle of 2 operations
// 0
