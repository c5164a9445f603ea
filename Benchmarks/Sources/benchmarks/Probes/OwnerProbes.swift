import OwnedOperations

extension Probe {
  /// Owners that come and go, and state that is protected.
  static var owners: [Probe] {
    [
      Probe("owners-ours") { count in
        for _ in 0..<count { _ = TokenHolder() }
      },
      Probe("reads-ours") { count in
        let state = Protected(1)
        for _ in 0..<count { blackHole(state.read { $0 }) }
      },
      Probe("writes-ours") { count in
        let state = Protected(1)
        for _ in 0..<count { state.write { $0 &+= 1 } }
      },
    ]
  }
}
