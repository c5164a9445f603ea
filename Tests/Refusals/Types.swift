// swift-format-ignore-file

// What must not compile: each line that ends in "refused:" has an error that contains the text, and no other line has one. See
// .ci/check-refusals.

import Foundation
import OwnedOperations

class Controller {  // not Sendable
  var title = ""
}

@MainActor final class Model {
  var title = ""
}

@globalActor actor Database {
  static let shared = Database()
}

let queue = OwnerScopedQueue()

// An owner that isn't Sendable is for the actor that it lives on.
nonisolated func outsideOfActors(_ controller: Controller) {
  OwnerScopedQueue.onMain(owner: controller) { $0.title = "x" }  // refused: main actor-isolated static method 'onMain
  DispatchQueue.onMain(owner: controller) { $0.title = "x" }  // refused: main actor-isolated static method 'onMain
  queue.run(for: controller) { 1 } onMain: { _, _ in }  // refused: 'Controller' does not conform to the 'Sendable' protocol
  queue.async(owner: controller) { _ in }  // refused: 'Controller' does not conform to the 'Sendable' protocol
  DispatchQueue.main.async(owner: controller) { _ in }  // refused: 'Controller' does not conform to the 'Sendable' protocol
  queue.addBarrier(owner: controller) { _ in }  // refused: 'Controller' does not conform to the 'Sendable' protocol
  queue.sync(owner: controller) { _ in }  // refused: 'Controller' does not conform to the 'Sendable' protocol
}

// Nowhere to come back to.
nonisolated func nowhere(_ controller: Controller) {
  queue.run(for: controller) { 1 } then: { _, _ in }  // refused: in a synchronous nonisolated context
}

// Work in the background has no owner.
@MainActor func work(_ controller: Controller, _ model: Model) {
  queue.run(for: controller) { controller.title } then: { _, _ in }  // refused: capture of 'controller' with non-Sendable type
  queue.run(for: model) { model.title } then: { _, _ in }  // refused: main actor-isolated property 'title' can not be referenced
  queue.run(for: model) { Controller() } then: { _, _ in }  // refused: 'Controller' does not conform to the 'Sendable' protocol
  queue.async(owner: model) { $0.title = "x" }  // refused: main actor-isolated property 'title' can not be mutated
  queue.sync(owner: model) { $0.title = "x" }  // refused: main actor-isolated property 'title' can not be mutated
}

// A handler belongs to the actor that asked for it.
@MainActor func handlers(_ model: Model) {
  queue.run(for: model) { 1 } then: { @Database _, _ in }  // refused: loses global actor 'Database'
}

@Database func elsewhere(_ controller: Controller) {
  OwnerScopedQueue.onMain(owner: controller) { $0.title = "x" }  // refused: main actor-isolated static method 'onMain
}

// Waiting is for threads.
func tasks(_ operation: OwnedResultOperation<Int>, _ model: Model) async throws {
  _ = try operation.get()  // refused: is unavailable from asynchronous contexts
  queue.sync(owner: model) { _ in }  // refused: is unavailable from asynchronous contexts
}

// What several threads read at the same time has to be Sendable.
func readers(_ protected: Protected<Controller>) {
  protected.read { _ in }  // refused: 'Controller' does not conform to the 'Sendable' protocol
}
