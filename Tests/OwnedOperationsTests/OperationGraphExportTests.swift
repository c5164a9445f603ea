import Foundation
import Testing

@testable import OwnedOperations

@Suite struct OperationGraphExportTests {
  private func graph() -> OperationGraph {
    let graph = OperationGraph(lifetime: .forTests)
    let load = graph.node("load \"it\"\\n\n<b> & #1; `x`") {}
    let decode = graph.node(priority: .veryHigh) {}
    let show = graph.node("show", priority: .low, lifetime: OwnerLifetime(name: "screen \"1\"")) {}
    show.depends(on: decode, load)
    load.precedes(decode)
    load.precedes(decode)
    return graph
  }

  @Test func dotIsExact() {
    #expect(
      graph().dot() == #"""
        digraph OperationGraph {
          n0 [label="load \"it\"\\n\n<b> & #1; `x`"];
          n1 [label="node 2", priority="very high"];
          n2 [label="show", priority="low", owner="screen \"1\""];
          n0 -> n2;
          n0 -> n1;
          n1 -> n2;
        }

        """#)
  }

  @Test func mermaidIsExact() {
    #expect(
      graph().mermaid() == #"""
        flowchart TD
          n0["load #34;it#34;#92;n<br/>#60;b#62; #38; #35;1#59; #96;x#96;"]
          n1["node 2<br/>priority: very high"]
          n2["show<br/>priority: low<br/>owner: screen #34;1#34;"]
          n0 --> n2
          n0 --> n1
          n1 --> n2

        """#)
  }

  @Test func graphsThatAreNotValidCanBeExported() {
    let graph = OperationGraph(lifetime: .forTests)
    #expect(graph.dot() == "digraph OperationGraph {\n}\n")
    #expect(graph.mermaid() == "flowchart TD\n")
    let node = graph.node("a") {}
    node.precedes(node)
    #expect(graph.dot().contains("n0 -> n0;"))
  }

  @Test func exportIsTheSameEveryTime() {
    let graph = OperationGraph(lifetime: .forTests)
    let nodes = (0..<2_000).map { graph.node("n\($0)") {} }
    for number in 1..<2_000 { nodes[number / 3].precedes(nodes[number]) }
    #expect(graph.dot() == graph.dot())
    #expect(graph.mermaid() == graph.mermaid())
    #expect(graph.dot().split(separator: "\n").count == 2_000 + 1_999 + 2)
  }
}
