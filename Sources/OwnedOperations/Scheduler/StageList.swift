/// A queue's stages, in order. Never empty. Adding one at the end and taking the first away take amortised constant time.
struct StageList: RandomAccessCollection {
  private var stages: ContiguousArray<Stage?>
  /// The places before this one are empty.
  private var first = 0

  init(_ stage: Stage) { stages = [stage] }

  var startIndex: Int { 0 }
  var endIndex: Int { stages.count - first }
  subscript(index: Int) -> Stage { stages[first + index].unsafelyUnwrapped }

  mutating func append(_ stage: Stage) { stages.append(stage) }

  mutating func removeFirst() -> Stage {
    let stage = self[0]
    stages[first] = nil
    first += 1
    if first > 32, first * 2 > stages.count {
      stages.removeFirst(first)
      first = 0
    }
    return stage
  }
}
