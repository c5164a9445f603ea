import OwnedOperations

class Controller {
  var text = "empty"

  @MainActor func load(on queue: OwnerScopedQueue) {
    queue.run(for: self) {
      "loaded"
    } then: { controller, result in
      controller.text = (try? result.get()) ?? "failed"
      print(controller.text)
    }
  }
}

let queue = OwnerScopedQueue(name: "loading")
let controller = Controller()
controller.load(on: queue)
await queue.finished()
await OwnerScopedQueue.main.finished()

// Prints:
// loaded
