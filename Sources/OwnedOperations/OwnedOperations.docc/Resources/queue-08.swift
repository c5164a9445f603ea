import OwnedOperations

let scrolling = OwnerLifetime(name: "scrolling")
let settings = OwnerLifetime(name: "settings")
let queue = OwnerScopedQueue(name: "decoding", maxConcurrentOperationCount: 1)
queue.ownerFairness = .roundRobin

queue.isSuspended = true
for number in 1...3 { queue.async(lifetime: scrolling) { print("scrolling \(number)") } }
queue.async(lifetime: settings) { print("settings") }
queue.isSuspended = false
queue.waitUntilAllOperationsAreFinished()

// Prints:
// scrolling 1
// settings
// scrolling 2
// scrolling 3
