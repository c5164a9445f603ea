// swift-format-ignore-file

// What must not compile: as in Types.swift. These are found after the types have been checked.

import Foundation
import OwnedOperations

class Controller {  // not Sendable
  var title = ""
}

let queue = OwnerScopedQueue()

// An owner that was given to the main actor belongs to it.
@MainActor func given() {
  let first = Controller()
  OwnerScopedQueue.onMain(owner: first) { $0.title = "x" }
  Task.detached { first.title = "y" }  // refused: risks causing data races
  let second = Controller()
  queue.run(for: second) { 1 } then: { controller, _ in controller.title = "x" }
  Task.detached { second.title = "y" }  // refused: risks causing data races
}

// One that belongs to somebody else can't be given to it.
func notOurs(_ controller: Controller) async {
  await OwnerScopedQueue.onMain(owner: controller) { $0.title = "x" }  // refused: risks causing data races
}

actor Holder {
  private let own = Controller()
  func give() async {
    await OwnerScopedQueue.onMain(owner: own) { $0.title = "x" }  // refused: risks causing data races
  }
}

// What belongs to somebody else can't be protected.
func notOurState(_ protected: Protected<Controller>, _ mine: Controller) {
  protected.write { $0 = mine }  // refused: 'inout sending' parameter '$0' cannot be task-isolated
}
