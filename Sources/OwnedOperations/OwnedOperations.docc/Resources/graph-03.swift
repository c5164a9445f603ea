import OwnedOperations

struct Offline: Error {}

let site = OwnerLifetime(name: "site")
let graph = OperationGraph(lifetime: site)
graph.dependencyPolicy = .requireSuccess
let load = graph.node("load") { throw Offline() }
let decode = graph.node("decode") { print("decoding") }
let show = graph.node("show") { print("showing") }
load.precedes(decode)
show.depends(on: decode)

let queue = OwnerScopedQueue(name: "pages")
let run = try graph.run(on: queue)
await run.finished()
for node in [load, decode, show] { print(node.name, run.outcome(of: node)!) }

// Prints:
// load failed: Offline()
// decode cancelled: its dependency load did not succeed
// show cancelled: its dependency decode did not succeed
