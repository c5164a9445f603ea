import OwnedOperations
import OwnedOperationsTesting

final class Page: @unchecked Sendable {  // its queue runs one job at a time, on the test's thread
  var lines: [String] = []
}

var seen: Set<[String]> = []
for seed in UInt64(0)..<100 {
  let time = VirtualTime(seed: seed)
  let queue = OwnerScopedQueue(virtualTime: time, order: .shuffled)
  let page = Page()
  queue.async(owner: page) { page in page.lines.append("header") }
  queue.async(owner: page) { page in page.lines.append("body") }
  time.runUntilIdle()
  seen.insert(page.lines)
}
print(seen.count, "orders")

// Prints:
// 2 orders
