import Testing

@testable import OwnedOperations

/// Old spellings do what the new ones do, until they go.
@Suite struct DeprecatedSpellingTests {
  private let old: any OldSpellings = Spellings()

  @Test func nodesAreConnectedByArrays() throws {
    let graph = OperationGraph(lifetime: .forTests)
    let order = Journal<Int>()
    let nodes = (0..<5).map { number in graph.node { order.write(number) } }
    old.connect(nodes[4], before: [nodes[2], nodes[1]])
    old.connect(nodes[0], behind: [nodes[2], nodes[3]])
    try graph.run(on: OwnerScopedQueue(maxConcurrentOperationCount: 1)).wait()
    let places = order.entries
    #expect(Set(places) == Set(0..<5))
    for (first, second) in [(4, 2), (4, 1), (2, 0), (3, 0)] {
      #expect(try #require(places.firstIndex(of: first)) < #require(places.firstIndex(of: second)))
    }
  }

  @Test func aHookIsInstalledOrTheReasonThrown() throws {
    let ran = Counter()
    var object: Object? = Object()
    #expect(try old.installHook(on: object!, ran).isInstalled)
    object = nil
    #expect(ran.value == 1)
    #if !canImport(ObjectiveC)
      var dying: Dying? = Dying(old)
      let refusal = dying!.refusal
      dying = nil
      #expect(refusal.withLock { $0 } == .objectIsDeinitialising(type: "Dying"))
    #endif
  }

  private final class Object {}

  private final class Dying {
    let refusal = Guarded<DeinitHookError?>(nil)
    let old: any OldSpellings
    init(_ old: any OldSpellings) { self.old = old }
    deinit {
      do throws(DeinitHookError) { _ = try old.installHook(on: self, Counter()) } catch { refusal.withLock { $0 = error } }
    }
  }
}

/// Called through this, a deprecated method that calls deprecated functions warns nobody.
private protocol OldSpellings: Sendable {
  func connect(_ node: OperationGraph.Node, before others: [OperationGraph.Node])
  func connect(_ node: OperationGraph.Node, behind others: [OperationGraph.Node])
  func installHook(on object: some AnyObject, _ ran: Counter) throws(DeinitHookError) -> DeinitHook
}

private struct Spellings: OldSpellings {
  @available(*, deprecated, message: "calls what is deprecated")
  func connect(_ node: OperationGraph.Node, before others: [OperationGraph.Node]) { node.precedes(others) }

  @available(*, deprecated, message: "calls what is deprecated")
  func connect(_ node: OperationGraph.Node, behind others: [OperationGraph.Node]) { node.depends(on: others) }

  @available(*, deprecated, message: "calls what is deprecated")
  func installHook(on object: some AnyObject, _ ran: Counter) throws(DeinitHookError) -> DeinitHook {
    try installDeinitHook(of: object) { _, _ in ran.add() }
  }
}
