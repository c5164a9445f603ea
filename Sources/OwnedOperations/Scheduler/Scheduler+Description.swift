/// What a debugger shows, and tests compare: a line for the queue, one for each phase, one for each of its owners that has work.
extension Scheduler {
  /// For example:
  ///
  ///     3 unfinished; 1 of 2 permits; 1 worker; a barrier waits
  ///       2 unfinished, 1 executing, ready: 1 normal; then a barrier
  ///         "cell": 2 unfinished, 1 executing
  var description: String {
    var notes = ["\(unfinished) unfinished", limit == .max ? "\(holders) permits" : "\(holders) of \(limit) permits"]
    let counts = [
      (workers.activeCount, "workers"), (arriving, "on their way"), (waiting, "wait"), (blockedWorkers, "blocked"), (yielded, "yielded"),
      (detached, "without a worker"), (waits.count, "waits"), (runs.count, "runs"),
    ]
    notes += counts.filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
    if isSuspended { notes.append("suspended") }
    if isBarrierRunning { notes.append("a barrier runs") }
    return ([notes.joined(separator: "; ")] + phases.flatMap { $0.lines(ownerLimit) }).joined(separator: "\n")
  }
}

extension BarrierPhase {
  fileprivate func lines(_ ownerLimit: Int) -> [String] {
    var line = "  \(unfinished) unfinished, \(executing) executing"
    if isOfBarriers { line += ", one at a time" }
    let ready = (0..<PriorityLevel.count).filter { readyLevels & 1 << UInt32($0) != 0 }
    if !ready.isEmpty { line += ", ready: \(readyCount), of " + ready.map { PriorityLevel.name(of: $0) }.joined(separator: ", ") }
    if isClosed { line += barrier == nil ? "; then the next" : "; then a barrier" }
    var owners: [String] = []
    forEachOwnerQueue { if !$0.isIdle { owners.append("    " + $0.line(ownerLimit)) } }
    return [line] + owners.sorted()
  }
}

extension OwnerQueue {
  fileprivate func line(_ ownerLimit: Int) -> String {
    let name = lifetime.map { $0.name.map { "\"\($0)\"" } ?? "\($0.id)" } ?? "no owner"
    var notes = ["\(unfinished) unfinished", "\(executing) executing"]
    if yielded > 0 { notes.append("\(yielded) yielded") }
    if isSuspended {
      notes.append("suspended")
    } else if isHeldBack {
      notes.append("held back")
    } else if isHeld(ownerLimit) {
      notes.append("at its limit")
    }
    if hasEnded { notes.append("ended") }
    return "\(name): " + notes.joined(separator: ", ")
  }
}
