import Foundation
import OwnedOperations

/// Ways to run work with dependencies: building, running once, and freeing everything, per node.
extension GraphShape {
  /// Closures as nodes of an `OperationGraph`.
  func graph(on queue: OwnerScopedQueue) -> Contender {
    let screen = Screen()
    return Contender("OperationGraph", operations: nodeCount) {
      try runGraph(for: screen, on: queue)
      try screen.checkVisits(nodeCount)
    }
  }

  private func runGraph(for screen: Screen, on queue: OwnerScopedQueue) throws {
    let graph = OperationGraph(owner: screen)
    var nodes: [OperationGraph.Node] = []
    nodes.reserveCapacity(nodeCount)
    for index in 0..<nodeCount {
      nodes.append(graph.node { screen.visit(index) })
    }
    for edge in edges { nodes[Int(edge.from)].precedes(nodes[Int(edge.to)]) }
    try graph.run(on: queue).wait()
  }

  /// An `OwnedBlockOperation` for each node, `repetitions` times one after the other.
  func ownedOperations(on queue: OwnerScopedQueue, repetitions: Int = 1) -> Contender {
    let screen = Screen()
    return Contender("OwnedOperation", operations: nodeCount * repetitions) {
      for _ in 0..<repetitions {
        run({ index in OwnedBlockOperation(owner: screen) { [weak screen] in screen?.visit(index) } }) { operations in
          queue.addOperations(operations, waitUntilFinished: false)
          queue.waitUntilAllOperationsAreFinished()
        }
        try screen.checkVisits(nodeCount)
      }
    }
  }

  /// A `BlockOperation` for each node.
  func foundationOperations(on queue: OperationQueue) -> Contender {
    let screen = Screen()
    return Contender("OperationQueue", operations: nodeCount) {
      run({ index in BlockOperation { [weak screen] in screen?.visit(index) } }) { operations in
        queue.addOperations(operations, waitUntilFinished: false)
        queue.waitUntilAllOperationsAreFinished()
      }
      try screen.checkVisits(nodeCount)
    }
  }

  private func run(_ makeOperation: (Int) -> Operation, _ execute: ([Operation]) -> Void) {
    let operations = (0..<nodeCount).map(makeOperation)
    for edge in edges { operations[Int(edge.to)].addDependency(operations[Int(edge.from)]) }
    execute(operations)
  }
}
