import Testing

@testable import OwnedOperations

/// When a worker waits for a work item that has come to become several.
@Suite struct GatheringTests {
  private var gathering = Gathering()

  /// - Returns: whether it was waited for.
  private mutating func next(count: Int) -> Bool {
    let isOn = gathering.begins()
    gathering.note(count)
    return isOn
  }

  @Test mutating func isOnWhereItemsBecomeSeveral() {
    let times = (0..<100).filter { _ in next(count: 5) }
    #expect(times.count == 100)
  }

  /// Two queues whose jobs add to each other: nothing more comes before the one that is there has run.
  @Test mutating func endsWhereTheyDoNot() {
    let times = (0..<1_000).filter { _ in next(count: 1) }
    #expect(times.count < 40)
    #expect(times.last ?? 0 > 900)  // now and then it looks whether that has changed
  }

  @Test mutating func isOnAgainWhenABatchHasSeveral() {
    for _ in 0..<100 { _ = next(count: 1) }
    gathering.note(2)
    let isOn = next(count: 2)
    #expect(isOn)
  }

  /// Asked at each look, it counts as one wait.
  @Test mutating func looksOfOneWaitAreOne() {
    _ = next(count: 1)
    let isOn = gathering.begins()
    #expect(!isOn)
    gathering.note(1)
    let looks = (0..<10).filter { _ in gathering.begins() }
    #expect(looks.count == 10)
  }
}
