import Foundation
import OwnedOperations

final class Download: OwnedAsyncOperation, @unchecked Sendable {  // stores nothing
  override func run() async throws {
    try await Task.sleep(for: .seconds(3600))
  }
}

let session = OwnerLifetime(name: "session")
let queue = OwnerScopedQueue()
let download = Download(lifetime: session)
download.timeout = .milliseconds(100)
queue.addOperations([download], waitUntilFinished: true)
print(download.outcome!)

// Prints:
// cancelled: it timed out after 0.1 seconds
