import Foundation
import Testing

@testable import OwnedOperations

@Suite struct OperationGraphTests {
  @Test func chainRunsInOrder() throws {
    let graph = OperationGraph(lifetime: .forTests)
    let journal = Journal<Int>()
    let nodes = (0..<1_000).map { number in graph.node { journal.write(number) } }
    for (first, second) in zip(nodes, nodes.dropFirst()) { first.precedes(second) }
    let run = try graph.run(on: OwnerScopedQueue())
    run.wait()
    #expect(journal.entries == Array(0..<1_000))
    #expect(run.nodeCounts.succeeded == 1_000)
  }
}
