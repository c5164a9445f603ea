import OwnedOperations

@MainActor final class PhotoModel: OperationOwner {
  let lifetimeToken = OwnerLifetime.Token(name: "photo")
  private let queue: OwnerScopedQueue
  private var title = "nothing yet"

  init(_ queue: OwnerScopedQueue) { self.queue = queue }

  func tap() {
    queue.run(for: self) {
      try decode("lake.txt")
    } then: { model, result in
      switch result {
      case .success(let title): model.title = title
      case .failure(let error): print("can't show it: \(error)")
      }
    }
  }
}

enum DecodingError: Error { case notAPicture(String) }

nonisolated func decode(_ file: String) throws -> String {
  guard file.hasSuffix(".png") else { throw DecodingError.notAPicture(file) }
  return "a lake, from \(file)"
}

let queue = OwnerScopedQueue(name: "decoding")
let model = PhotoModel(queue)
model.tap()
await queue.finished()
await OwnerScopedQueue.main.finished()

// Prints:
// can't show it: notAPicture("lake.txt")
