import Testing

@testable import OwnedOperations

/// The list that a phase keeps its owner queues in, next to an array.
@Suite(.timeLimit(.minutes(1))) struct OwnerQueueListTests {
  private final class Home {}

  private func makeOwnerQueue() -> OwnerQueue { OwnerQueue(lifetime: nil, home: Home(), listener: nil, isSuspended: false) }

  private func elements(_ list: borrowing OwnerQueueList) -> [ObjectIdentifier] {
    var found: [ObjectIdentifier] = []
    list.visit { found.append(ObjectIdentifier($0)) }
    return found
  }

  @Test(arguments: 0..<20) func aListHoldsWhatAnArrayWould(_ seed: UInt64) {
    var random = SplitMix(state: seed)
    var list = OwnerQueueList()
    var array: [OwnerQueue] = []
    for _ in 0..<500 {
      switch Int.random(in: 0..<4, using: &random) {
      case 0, 1:
        array.append(makeOwnerQueue())
        list.append(array[array.count - 1])
      case 2:
        guard let index = array.indices.randomElement(using: &random) else { continue }
        let removed = list.remove(array[index])
        #expect(removed === array[index])
        array.remove(at: index)
      default:
        // Used ones stay, where they stood.
        for ownerQueue in array where Bool.random(using: &random) { ownerQueue.executing = 1 - ownerQueue.executing }
        let taken = list.take(lookingAt: Int.random(in: 0..<8, using: &random)) { $0.executing == 0 }
        #expect(taken.allSatisfy { $0.executing == 0 })
        array.removeAll { ownerQueue in taken.contains { $0 === ownerQueue } }
      }
      #expect(elements(list) == array.map { ObjectIdentifier($0) })
      let count = list.count
      #expect(count == array.count)
    }
  }

  /// However few it looks at, it comes to each in turn.
  @Test func itLooksAtAllInTurn() {
    var list = OwnerQueueList()
    let all = (0..<10).map { _ in makeOwnerQueue() }
    for ownerQueue in all { list.append(ownerQueue) }
    var looked: [Int] = []
    func look(_ most: Int, taking taken: Int? = nil) {
      _ = list.take(lookingAt: most) { ownerQueue in
        guard let index = all.firstIndex(where: { $0 === ownerQueue }) else { return false }
        looked.append(index)
        return index == taken
      }
    }
    look(4)
    look(4, taking: 5)
    look(4)
    #expect(looked == Array(0..<10) + [0, 1])
    _ = list.remove(all[2])  // who was next
    looked = []
    look(100)
    #expect(looked == [3, 4, 6, 7, 8, 9, 0, 1])
  }

  @Test func itKeepsWhatIsInIt() {
    var list = OwnerQueueList()
    weak var kept: OwnerQueue?
    weak var left: OwnerQueue?
    do {
      let (first, second) = (makeOwnerQueue(), makeOwnerQueue())
      (kept, left) = (first, second)
      list.append(first)
      list.append(second)
    }
    #expect(kept != nil && left != nil)
    if let second = left { _ = list.remove(second) }
    #expect(left == nil)
    list = OwnerQueueList()
    #expect(kept == nil)
  }
}
