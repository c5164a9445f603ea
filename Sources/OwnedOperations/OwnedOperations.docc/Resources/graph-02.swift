import OwnedOperations

let site = OwnerLifetime(name: "site")
let graph = OperationGraph(lifetime: site)
let load = graph.node("load") { print("loading") }
let decode = graph.node("decode") { print("decoding") }
let show = graph.node("show") { print("showing") }
load.precedes(decode)
show.depends(on: decode)

let queue = OwnerScopedQueue(name: "pages")
let run = try graph.run(on: queue)
try await run.value
print(run.nodeCounts.succeeded, "nodes succeeded")

// Prints:
// loading
// decoding
// showing
// 3 nodes succeeded
