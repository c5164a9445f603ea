import OwnedOperations

@MainActor final class Clock {
  private(set) var ticks = 0
  func tick() {
    ticks += 1
    print("tick \(ticks)")
  }
}

func heard(_ clock: Clock) async {
  OwnerScopedQueue.onMain(owner: clock) { clock in clock.tick() }
}

let clock = Clock()
await Task.detached { await heard(clock) }.value
await OwnerScopedQueue.main.finished()

// Prints:
// tick 1
