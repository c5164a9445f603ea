import Foundation
import Testing

@testable import OwnedOperations

/// What hooks cost in memory and time.
@Suite(.serialized) struct DeinitHookCostTests {
  final class Subject {
    let word = 1
  }

  final class Unhooked {
    let word = 1
  }

  /// A million by default; `DEINIT_HOOK_OBJECTS=10000000` for more. Sanitizers are slow, so there it is a hundred thousand.
  static var objects: Int {
    let wanted = ProcessInfo.processInfo.environment["DEINIT_HOOK_OBJECTS"].flatMap { Int($0) }
    return wanted ?? (Sanitizer.isActive ? 100_000 : 1_000_000)
  }

  #if os(Linux)
    private static func show(_ child: ExitTest.Result?) {
      let lines = String(decoding: child?.standardOutputContent ?? [], as: UTF8.self).split(separator: "\n")
      for line in lines where line.contains(" objects ") { print(line) }
    }

    // In a process of its own, as the next, so that the figures are of nothing else.
    @Test func memoryIsFlatWhileObjectsAreHookedAndFreed() async {
      let child = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
        let runs = HookCounter()
        func cycle(_ count: Int) {
          for _ in 0..<count { onDeinit(of: Subject()) { _, _ in runs.add() } }
        }
        cycle(100_000)
        let before = residentBytes()
        let slots = DeinitRegistry.shared.occupancy.slots
        cycle(DeinitHookCostTests.objects)
        let growth = residentBytes() - before
        print("\(DeinitHookCostTests.objects) objects hooked and freed: resident \(before >> 10) KiB, grown by \(growth >> 10) KiB")
        // Two bytes leaked per object would be seen; a leaked node or closure is at least 32.
        // AddressSanitizer holds freed memory back on purpose, and reports leaks itself.
        let isFlat =
          (growth < 2 << 20 || Sanitizer.isAddress) && DeinitRegistry.shared.occupancy == (0, slots)
        exit(isFlat && runs.count == 100_000 + DeinitHookCostTests.objects ? EXIT_SUCCESS : EXIT_FAILURE)
      }
      Self.show(child)
    }

    @Test func slotsOfFreedObjectsAreUsedAgain() async {
      let child = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
        let runs = HookCounter()
        var slots: [Int] = []
        var live: [Int] = []
        let count = Sanitizer.isActive ? 20_000 : 100_000
        for round in 0..<6 {
          let before = residentBytes()
          var objects = (0..<count).map { _ in Subject() }
          for object in objects { onDeinit(of: object) { _, _ in runs.add() } }
          live.append(DeinitRegistry.shared.occupancy.objects)
          if round == 0 { print("\(count) live objects with a hook: \((residentBytes() - before) / count) bytes each") }
          objects = []
          slots.append(DeinitRegistry.shared.occupancy.slots)
        }
        // A shard may double once more for addresses that are spread another way; rounds that leaked their slots would need six times as
        // many.
        let isReused = slots[5] <= 2 * slots[0] && slots[0] < 1 << 19
        let isComplete = live.allSatisfy { $0 == count } && runs.count == 6 * count && DeinitRegistry.shared.occupancy.objects == 0
        exit(isReused && isComplete ? EXIT_SUCCESS : EXIT_FAILURE)
      }
      Self.show(child)
    }
  #endif

  // Not inlined: the optimiser would see that the object is not needed.
  @inline(never) private static func make() -> Subject { Subject() }
  @inline(never) private static func makeUnhooked() -> Unhooked { Unhooked() }

  @Test func figures() {
    let runs = HookCounter()
    let clock = ContinuousClock()
    let count = Self.objects / 5
    func nanoseconds(_ body: () -> Void) -> Double {
      let duration = clock.measure { for _ in 0..<count { body() } }
      return Double(duration.components.attoseconds) / 1e9 / Double(count) + Double(duration.components.seconds) * 1e9 / Double(count)
    }
    func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }
    var hooked: [Double] = []
    var bystander: [Double] = []
    var plain: [Double] = []
    let keeper = Self.make()
    onDeinit(of: keeper) { _, _ in }
    for _ in 0..<7 {
      hooked.append(nanoseconds { onDeinit(of: Self.make()) { _, _ in runs.add() } })
      bystander.append(nanoseconds { _ = Self.make() })
      plain.append(nanoseconds { _ = Self.makeUnhooked() })
    }
    #expect(runs.count == 7 * count)
    print(
      "create + install + fire + free: \(median(hooked)) ns; create + free without a hook: of a hooked class \(median(bystander)) ns, "
        + "of another \(median(plain)) ns")
    withExtendedLifetime(keeper) {}
  }

  @Test func instancesWithoutAHookTakeNoLock() {
    let keeper = Subject()
    onDeinit(of: keeper) { _, _ in }
    // Every shard's lock is held by this thread meanwhile: an instance that asked for one would wait for ever.
    DeinitRegistry.shared.withEveryShardLocked {
      for _ in 0..<10_000 { _ = Self.make() }
    }
    withExtendedLifetime(keeper) {}
  }
}
