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

  /// Takes out those that are neither the first nor the last, and that the condition holds for. Linear.
  mutating func removeInTheMiddle(where isToGo: (BarrierPhase) -> Bool) -> [BarrierPhase] {
    var (kept, gone): (ContiguousArray<BarrierPhase?>, [BarrierPhase]) = ([], [])
    for index in indices {
      let phase = self[index]
      if index > startIndex, index < endIndex - 1, isToGo(phase) { gone.append(phase) } else { kept.append(phase) }
    }
    (phases, first) = (kept, 0)
    return gone
  }

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
