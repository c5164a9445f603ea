/// A queue's phases, in order. Never empty. Adding one at the end and taking the first away take amortised constant time.
struct BarrierPhaseList: RandomAccessCollection {
  private var phases: ContiguousArray<BarrierPhase?>
  /// The places before this one are empty.
  private var first = 0

  init(_ phase: BarrierPhase) { phases = [phase] }

  var startIndex: Int { 0 }
  var endIndex: Int { phases.count - first }
  subscript(index: Int) -> BarrierPhase { phases[first + index].unsafelyUnwrapped }

  mutating func append(_ phase: BarrierPhase) { phases.append(phase) }

  mutating func removeFirst() -> BarrierPhase {
    let phase = self[0]
    phases[first] = nil
    first += 1
    if first > 32, first * 2 > phases.count {
      phases.removeFirst(first)
      first = 0
    }
    return phase
  }
}
