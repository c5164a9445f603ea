import Dispatch
import OwnedOperations

@MainActor final class PhotoModel: OperationOwner {
  let lifetimeToken = OwnerLifetime.Token(name: "photo")
  private let queue: OwnerScopedQueue

  init(_ queue: OwnerScopedQueue) { self.queue = queue }

  func tap() {
    queue.run(for: self) {
      isDecoding.signal()
      mayGoOn.wait()
      print("decoded")
    } then: { _, _ in
      print("never printed")
    }
  }
}

let isDecoding = DispatchSemaphore(value: 0)
let mayGoOn = DispatchSemaphore(value: 0)

let queue = OwnerScopedQueue(name: "decoding")
var model: PhotoModel? = PhotoModel(queue)
model?.lifetime.onEnd { _ in print("the model has gone") }
model?.tap()
isDecoding.waitUntilSignalled()
model = nil
mayGoOn.signal()
await queue.finished()
await OwnerScopedQueue.main.finished()

extension DispatchSemaphore {
  func waitUntilSignalled() { wait() }
}

// Prints:
// the model has gone
// decoded
