import OwnedOperations

let site = OwnerLifetime(name: "site")
let graph = OperationGraph(lifetime: site)
let load = graph.node("load") { print("loading") }
let decode = graph.node("decode") { print("decoding") }
let show = graph.node("show") { print("showing") }
load.precedes(decode)
show.depends(on: decode)
load.depends(on: show)

do {
  try graph.run(on: OwnerScopedQueue(name: "pages"))
} catch OwnerScopedQueueError.dependencyCycle(let names) {
  print("a cycle of \(names.count) nodes:", names.sorted().joined(separator: ", "))
}

// Prints:
// a cycle of 3 nodes: decode, load, show
