import OwnedOperations

@MainActor final class PhotoModel: OperationOwner {
  let lifetimeToken = OwnerLifetime.Token(name: "photo")
  private let queue: OwnerScopedQueue
  private var title = "nothing yet"

  init(_ queue: OwnerScopedQueue) { self.queue = queue }

  func tap() {
    queue.run(for: self) {
      decode("lake.png")
    } then: { model, result in
      model.title = (try? result.get()) ?? "no picture"
      print("shows \(model.title)")
    }
    print("shows \(title)")
  }
}

nonisolated func decode(_ file: String) -> String { "a lake, from \(file)" }

let queue = OwnerScopedQueue(name: "decoding")
let model = PhotoModel(queue)
model.tap()
await queue.finished()
await OwnerScopedQueue.main.finished()

// Prints:
// shows nothing yet
// shows a lake, from lake.png
