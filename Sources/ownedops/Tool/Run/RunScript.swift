import Foundation
import OwnedOperations

extension RunFile {
  /// All jobs in an order in which one worker could run them: after what they depend on, urgent ones first, then as in the file.
  var order: [Int] {
    var outstanding = jobs.map(\.after.count)
    var dependents = Array(repeating: [Int](), count: jobs.count)
    for (place, job) in jobs.enumerated() { for target in job.after { dependents[target].append(place) } }
    let levels: [Operation.QueuePriority] = [.veryHigh, .high, .normal, .low, .veryLow]
    var ready = levels.map { level in jobs.indices.filter { outstanding[$0] == 0 && jobs[$0].priority == level } }
    var heads = levels.map { _ in 0 }
    var order: [Int] = []
    order.reserveCapacity(jobs.count)
    while let level = levels.indices.first(where: { heads[$0] < ready[$0].count }) {
      let place = ready[level][heads[level]]
      heads[level] += 1
      order.append(place)
      for dependent in dependents[place] {
        outstanding[dependent] -= 1
        guard outstanding[dependent] == 0 else { continue }
        ready[levels.firstIndex(of: jobs[dependent].priority) ?? 2].append(dependent)
      }
    }
    return order
  }

  /// What would be run, as a script for a shell.
  var script: String {
    order.map { "# \(jobs[$0].name.controlsEscaped)\n\(ShellText.line(jobs[$0].command))\n" }.joined()
  }
}
