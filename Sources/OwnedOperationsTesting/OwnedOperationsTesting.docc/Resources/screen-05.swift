import OwnedOperations
import OwnedOperationsTesting

let time = VirtualTime()
let queue = OwnerScopedQueue(virtualTime: time, name: "answers", maxConcurrentOperationCount: 1)
let screen = OwnerLifetime(name: "screen")
queue.asyncAfter(.seconds(60), lifetime: screen) {}
let task = screen.task(on: queue) { try await time.sleep(for: .seconds(5)) }
queue.async(lifetime: screen) {}
time.runUntilIdle()
for work in time.pending.map(\.description).sorted() { print(work) }

// Prints:
// job of "screen" in "answers": as many execute as the limit allows
// job of "screen" in "answers": delayed until +60.0 seconds
// task of "screen" in "answers": delayed until +5.0 seconds
