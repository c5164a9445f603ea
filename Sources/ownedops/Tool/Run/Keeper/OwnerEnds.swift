import Foundation

/// When owners end, for a keeper that stands in for its runner.
struct OwnerEnds {
  private let owners: [KeptOwner]
  private let came = ContinuousClock.now
  let hasConditions: Bool

  init(_ owners: [KeptOwner]) {
    self.owners = owners
    hasConditions = owners.contains { $0.end != nil }
  }

  /// Those that have ended, or one of whose parents has: by place, with the reason.
  func ended() -> [Int: String] {
    guard hasConditions else { return [:] }
    var own: [Int: String] = [:]
    for (place, owner) in owners.enumerated() {
      if let end = owner.end, let reason = reason(end) { own[place] = "its owner \(owner.name) ended: \(reason)" }
    }
    guard !own.isEmpty else { return [:] }
    var all = own
    for place in owners.indices where all[place] == nil {
      var parent = owners[place].parent
      while let current = parent, own[current] == nil { parent = owners[current].parent }
      if let parent { all[place] = own[parent] }
    }
    return all
  }

  private func reason(_ end: KeptOwner.End) -> String? {
    switch end {
    case .process(let process, let birth):
      return OwnerWatch.hasExited(process, bornAt: birth.isEmpty ? nil : birth) ? "process \(process) has exited" : nil
    case .fileRemoved(let path):
      var status = stat()
      return lstat(path, &status) != 0 && (errno == ENOENT || errno == ENOTDIR) ? "\(path) has gone" : nil
    case .after(let seconds):
      return .now - came >= .seconds(seconds) ? "\(Shown.seconds(seconds)) have passed" : nil
    }
  }
}
