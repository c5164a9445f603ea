import OwnedOperations

extension Benchmark {
  static var owners: Benchmark {
    Benchmark("P9-owners", "owners come and go") { session in
      let count = session.pick(1_000_000, quick: 100_000)
      let ours = Contender("token", operations: count) {
        for _ in 0..<count { _ = TokenHolder() }
      }
      try session.measure("create, end", count: count, ours: ours, target: .ours(atMost: 150))
      try session.compare(
        "create, end", count: count, ours: ours,
        peer: Contender("safe-dispatch wrapper", operations: count) {
          for _ in 0..<count { _ = Registrant() }
        })
      try session.measure(
        "any object: create, install a hook, end, hook runs", count: count,
        ours: Contender("onDeinit(of:)") {
          let before = HookCounter.value
          let cost = nanoseconds(per: count) {
            for _ in 0..<count { onDeinit(of: Plain()) { _, _ in HookCounter.value += 1 } }
          }
          try WrongResult.check(HookCounter.value - before, is: count, "hooks run")
          return cost
        }, target: .ours(atMost: 400))
      let memory = try ProbeProcess.memory("living-owners", count: count)
      session.record(
        "\(count.short) living owners", unit: "bytes", count: count, ours: "object with a token, resident", [memory.resident],
        target: .ours(atMost: 160))
    }
  }
}

/// An owner and nothing else.
final class TokenHolder: OperationOwner, Sendable {
  let lifetimeToken = OwnerLifetime.Token()
}

/// An owner of the safe-dispatch wrapper.
private final class Registrant: Sendable {
  let identifier = SafeDispatch.shared.register()
  deinit { SafeDispatch.shared.unregister(identifier) }
}

private final class Plain: Sendable {}

private enum HookCounter {
  /// Hooks run on the thread that lets go of the object, which here is always the same.
  nonisolated(unsafe) static var value = 0
}
