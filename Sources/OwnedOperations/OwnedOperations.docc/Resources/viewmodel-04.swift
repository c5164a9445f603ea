import OwnedOperations

@MainActor final class PhotoModel: OperationOwner {
  let lifetimeToken = OwnerLifetime.Token(name: "photo")
  private let queue: OwnerScopedQueue
  private var decoding: OwnedOperation?

  init(_ queue: OwnerScopedQueue) { self.queue = queue }

  func tap(_ file: String) {
    decoding?.cancel()
    decoding = queue.run(for: self) {
      "from \(file)"
    } then: { _, result in
      switch result {
      case .success(let title): print("shows \(title)")
      case .failure(let error): print(error is CancellationError ? "not \(file)" : "can't show it: \(error)")
      }
    }
  }
}

let queue = OwnerScopedQueue(name: "decoding")
let model = PhotoModel(queue)
queue.isSuspended = true
model.tap("lake.png")
model.tap("hill.png")
queue.isSuspended = false
await queue.finished()
await OwnerScopedQueue.main.finished()

// Prints:
// not lake.png
// shows from hill.png
