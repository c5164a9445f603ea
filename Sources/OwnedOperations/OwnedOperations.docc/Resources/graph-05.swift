import OwnedOperations

let site = OwnerLifetime(name: "site")
let preview = OwnerLifetime(name: "preview", parent: site)
let graph = OperationGraph(lifetime: site)
let load = graph.node("load") { print("loading") }
let show = graph.node("show", lifetime: preview) { print("showing") }
let save = graph.node("save") { print("saving") }
load.precedes(show, save)

let queue = OwnerScopedQueue(name: "pages")
preview.end()
let run = try graph.run(on: queue)
await run.finished()
print(show.name, run.outcome(of: show)!)

// Prints:
// loading
// saving
// show cancelled: owner#2 ended
