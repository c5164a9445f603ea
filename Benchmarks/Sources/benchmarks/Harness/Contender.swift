import Dispatch

/// One side of a comparison.
struct Contender {
  let name: String
  /// Does the work once, and returns what it cost, in the unit of the comparison.
  let sample: () throws -> Double

  init(_ name: String, sample: @escaping () throws -> Double) {
    self.name = name
    self.sample = sample
  }

  /// Work that is timed as a whole, in nanoseconds per operation.
  init(_ name: String, operations: Int, _ work: @escaping () throws -> Void) {
    self.name = name
    sample = { try nanoseconds(per: operations, work) }
  }
}

/// How long `work` takes, by the monotonic clock, divided by the number of operations in it.
func nanoseconds(per operations: Int = 1, _ work: () throws -> Void) rethrows -> Double {
  let start = DispatchTime.now().uptimeNanoseconds
  try work()
  return Double(DispatchTime.now().uptimeNanoseconds - start) / Double(operations)
}
