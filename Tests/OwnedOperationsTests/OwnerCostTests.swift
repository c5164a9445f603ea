import Foundation
import Testing

@testable import OwnedOperations

#if os(Linux)
  /// What owners cost. For figures that mean something:
  /// `swift test -c release -Xswiftc -enable-testing --filter OwnerCost`
  @Suite(.serialized) struct OwnerCostTests {
    // In a process of its own, so that the memory is of nothing else.
    @Test func aMillionLivingOwnersTakeAtMost160BytesEach() async {
      let child = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
        let count = Sanitizer.isActive ? 10_000 : 1_000_000
        var owners = [TokenOwner](repeating: TokenOwner(), count: count)
        for index in owners.indices { owners[index] = owners[0] }  // touches the array's memory
        let before = residentBytes()
        for index in owners.indices { owners[index] = TokenOwner() }
        let each = Double(residentBytes() - before) / Double(count)
        print("owner figures: \(count) living owners with a token take \(each) bytes each, owner, token and lifetime together")
        let areAlive = owners.allSatisfy { $0.lifetime.isAlive }
        exit(areAlive && (each <= 160 || Sanitizer.isActive) ? EXIT_SUCCESS : EXIT_FAILURE)
      }
      Self.show(child)
    }

    @Test func figures() async {
      let child = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
        #if DEBUG
          let rounds = Sanitizer.isActive ? 1_000 : 100_000
        #else
          let rounds = Sanitizer.isActive ? 1_000 : 1_000_000
        #endif
        let owner = medianNanoseconds(rounds: rounds) { for _ in 0..<$0 { _ = TokenOwner() } }
        let hooked = medianNanoseconds(rounds: rounds) { for _ in 0..<$0 { TokenOwner().lifetime.onEnd { _ in } } }
        print("owner figures: create and end \(owner) ns, with a hook \(hooked) ns")
        let next = OwnerLifetime()
        // Every owner made has ended.
        exit(OwnerLifetime.isAlive(next.id) && OwnerIDRegistry.shared.pageCount <= 2 ? EXIT_SUCCESS : EXIT_FAILURE)
      }
      Self.show(child)
    }

    private static func show(_ child: ExitTest.Result?) {
      let lines = String(decoding: child?.standardOutputContent ?? [], as: UTF8.self).split(separator: "\n")
      for line in lines where line.hasPrefix("owner figures") { print(line) }
    }
  }
#endif
