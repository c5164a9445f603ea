/// A task that can be run alone in a process, so many times, for a tool that looks at the process as a whole.
struct Probe {
  let name: String
  let body: (Int) throws -> Void

  init(_ name: String, _ body: @escaping (Int) throws -> Void) {
    self.name = name
    self.body = body
  }

  func run(count: Int) throws { try body(count) }

  static var list: String { all.map(\.name).joined(separator: "\n") }

  static var all: [Probe] { jobs }

  private static var jobs: [Probe] {
    [
      Probe("jobs-ours") { count in try JobRunner.ours().runOnce(jobs: count) },
      Probe("jobs-gcd") { count in try JobRunner.gcd().runOnce(jobs: count) },
      Probe("jobs-gcd-weak") { count in try JobRunner.gcdWithWeakCheck().runOnce(jobs: count) },
      Probe("jobs-safe-dispatch") { count in try JobRunner.safeDispatch().runOnce(jobs: count) },
      Probe("operations-ours") { count in try JobRunner.ownedOperations().runOnce(jobs: count) },
      Probe("operations-foundation") { count in try JobRunner.operationQueue().runOnce(jobs: count) },
    ]
  }
}

extension JobRunner {
  fileprivate func runOnce(jobs: Int) throws { _ = try contender(jobs: jobs).sample() }
}
