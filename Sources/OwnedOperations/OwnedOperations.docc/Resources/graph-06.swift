import OwnedOperations

let site = OwnerLifetime(name: "site")
let preview = OwnerLifetime(name: "preview", parent: site)
let graph = OperationGraph(lifetime: site)
let load = graph.node("load") { print("loading") }
let show = graph.node("show", lifetime: preview) { print("showing") }
let save = graph.node("save") { print("saving") }
load.precedes(show, save)

print(graph.mermaid(), terminator: "")

// Prints:
// flowchart TD
//   n0["load"]
//   n1["show<br/>owner: preview"]
//   n2["save"]
//   n0 --> n1
//   n0 --> n2
