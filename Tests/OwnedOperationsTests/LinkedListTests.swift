import Testing

@testable import OwnedOperations

/// A linked list, next to an array.
@Suite(.timeLimit(.minutes(1))) struct LinkedListTests {
  private final class Element: Linked {
    var links = Links<Element>()
    var isUsed = false
  }

  private func elements(_ list: borrowing LinkedList<Element>) -> [ObjectIdentifier] {
    var found: [ObjectIdentifier] = []
    list.visit { found.append(ObjectIdentifier($0)) }
    return found
  }

  @Test(arguments: 0..<20) func aListHoldsWhatAnArrayWould(_ seed: UInt64) {
    var random = SplitMix(state: seed)
    var list = LinkedList<Element>()
    var array: [Element] = []
    for _ in 0..<500 {
      switch Int.random(in: 0..<4, using: &random) {
      case 0, 1:
        array.append(Element())
        list.append(array[array.count - 1])
      case 2:
        guard let index = array.indices.randomElement(using: &random) else { continue }
        let removed = list.remove(array[index])
        #expect(removed === array[index])
        array.remove(at: index)
      default:
        // Used ones stay, where they stood.
        for element in array where Bool.random(using: &random) { element.isUsed.toggle() }
        let taken = list.take(lookingAt: Int.random(in: 0..<8, using: &random)) { !$0.isUsed }
        #expect(taken.allSatisfy { !$0.isUsed })
        array.removeAll { element in taken.contains { $0 === element } }
      }
      #expect(elements(list) == array.map { ObjectIdentifier($0) })
      let count = list.count
      #expect(count == array.count)
    }
  }

  /// However few it looks at, it comes to each in turn.
  @Test func itLooksAtAllInTurn() {
    var list = LinkedList<Element>()
    let all = (0..<10).map { _ in Element() }
    for element in all { list.append(element) }
    var looked: [Int] = []
    func look(_ most: Int, taking taken: Int? = nil) {
      _ = list.take(lookingAt: most) { element in
        guard let index = all.firstIndex(where: { $0 === element }) else { return false }
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
    var list = LinkedList<Element>()
    weak var kept: Element?
    weak var left: Element?
    do {
      let (first, second) = (Element(), Element())
      (kept, left) = (first, second)
      list.append(first)
      list.append(second)
    }
    #expect(kept != nil && left != nil)
    if let second = left { _ = list.remove(second) }
    #expect(left == nil)
    list = LinkedList<Element>()
    #expect(kept == nil)
  }

  @Test func whatWasInOneListIsInAnotherWithoutItsNeighbours() {
    let all = (0..<3).map { _ in Element() }
    var list = LinkedList<Element>()
    for element in all { list.append(element) }
    list = LinkedList<Element>()
    list.append(all[1])
    #expect(elements(list) == [ObjectIdentifier(all[1])])
  }
}
