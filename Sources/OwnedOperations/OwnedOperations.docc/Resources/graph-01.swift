import OwnedOperations

let site = OwnerLifetime(name: "site")
let graph = OperationGraph(lifetime: site)
let load = graph.node("load") { print("loading") }
let decode = graph.node("decode") { print("decoding") }
let show = graph.node("show") { print("showing") }
load.precedes(decode)
show.depends(on: decode)

print(graph.nodeCount)

// Prints:
// 3
