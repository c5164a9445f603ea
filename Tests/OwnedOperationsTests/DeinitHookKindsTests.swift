import Dispatch
import Foundation
import Testing

@testable import OwnedOperations

/// A hooked object of the given kind runs its hook once, at its end and not before.
private func expectOneHookAtTheEnd<Object: AnyObject>(
  _ make: () throws -> Object, sourceLocation: SourceLocation = #_sourceLocation
) rethrows {
  let runs = HookCounter()
  var object: Object? = try make()
  let other = try make()
  let hook = onDeinit(of: object!) { _, _ in runs.add() }
  #expect(hook.isInstalled, sourceLocation: sourceLocation)
  #expect(runs.count == 0, sourceLocation: sourceLocation)
  object = nil
  #expect(runs.count == 1, sourceLocation: sourceLocation)
  #expect(!hook.isInstalled && !hook.cancel(), sourceLocation: sourceLocation)
  withExtendedLifetime(other) {}
}

@Suite struct DeinitHookKindsTests {
  @Test func finalAndOpenClasses() {
    expectOneHookAtTheEnd { HookCounter() }
    expectOneHookAtTheEnd { HookedBase(EventLog()) }
  }

  @Test func threeLevelsOfSubclassingSideBySide() {
    let log = EventLog()
    // Hooked in an order in which bases come before, between and after their subclasses.
    let makers: [() -> HookedBase] = [{ HookedMiddle(log) }, { HookedLeaf(log) }, { HookedBase(log) }, { HookedLeaf(log) }]
    var objects = makers.map { $0() }
    let plain = makers.map { $0() }
    for (index, object) in objects.enumerated() { onDeinit(of: object) { _, _ in log.add("hook \(index)") } }
    for _ in 0..<4 { objects.removeFirst() }
    let leaf = ["leaf deinit", "middle deinit", "base deinit"]
    #expect(log.events == ["hook 0", "middle deinit", "base deinit", "hook 1"] + leaf + ["hook 2", "base deinit", "hook 3"] + leaf)
    withExtendedLifetime(plain) {}
  }

  @Test func subclassesWhoseMetadataIsMadeAfterTheBaseWasHooked() {
    class GenericBase<Element> {
      let log: EventLog
      init(_ log: EventLog) { self.log = log }
      deinit { log.add("base of \(Element.self)") }
    }
    class GenericDerived<Element>: GenericBase<Element> {
      deinit { log.add("derived of \(Element.self)") }
    }
    final class Concrete: GenericDerived<UInt16> {
      deinit { log.add("concrete") }
    }
    func run<Element>(_: Element.Type, _ log: EventLog) {
      onDeinit(of: GenericBase<Element>(log)) { _, _ in log.add("hook") }
      onDeinit(of: GenericDerived<Element>(log)) { _, _ in log.add("hook") }
    }
    let log = EventLog()
    run(Int8.self, log)
    run(String.self, log)
    onDeinit(of: GenericBase<UInt16>(log)) { _, _ in log.add("hook") }
    onDeinit(of: Concrete(log)) { _, _ in log.add("hook") }
    #expect(
      log.events == [
        "hook", "base of Int8", "hook", "derived of Int8", "base of Int8",
        "hook", "base of String", "hook", "derived of String", "base of String",
        "hook", "base of UInt16", "hook", "concrete", "derived of UInt16", "base of UInt16",
      ])
  }

  @Test func resilientSuperclassesAndFoundationClasses() throws {
    final class Observer: NSObject {}
    final class Work: Operation, @unchecked Sendable {}
    expectOneHookAtTheEnd { Observer() }
    expectOneHookAtTheEnd { NSObject() }
    expectOneHookAtTheEnd { Work() }
    expectOneHookAtTheEnd { BlockOperation {} }
    expectOneHookAtTheEnd { NSMutableArray(array: [1, 2]) }
    expectOneHookAtTheEnd { NSMutableString(string: "text") }
    expectOneHookAtTheEnd { NSLock() }
    expectOneHookAtTheEnd { OperationQueue() }
    expectOneHookAtTheEnd { JSONEncoder() }
    expectOneHookAtTheEnd { DispatchQueue(label: "hooked") }
    expectOneHookAtTheEnd { NSNumber(value: 12345.678) }
    try expectOneHookAtTheEnd { try NSRegularExpression(pattern: "a+") }
  }

  @Test func actors() async {
    actor Plain {
      var state = 0
      func step() { state += 1 }
    }
    let runs = HookCounter()
    do {
      let plain = Plain()
      onDeinit(of: plain) { _, _ in runs.add() }
      await plain.step()
    }
    #expect(runs.count == 1)
    expectOneHookAtTheEnd { Plain() }
    expectOneHookAtTheEnd { OnMain() }
    expectOneHookAtTheEnd { OwnExecutor() }
  }

  @Test func classesWithAnIsolatedDeinit() async {
    let order = EventLog()
    await withCheckedContinuation { continuation in
      let object = Isolated {
        order.add("deinit")
        continuation.resume()
      }
      onDeinit(of: object) { _, _ in order.add("hook") }
    }
    #expect(order.events == ["hook", "deinit"])
  }

  #if !canImport(ObjectiveC)
    @Test func closuresBoxesAndOtherValuesThatArriveAsAnyObject() {
      struct Value { let text: String }
      enum Failure: Error { case some(Int) }
      let seed = EventLog()
      expectOneHookAtTheEnd { { seed.add("call") } as AnyObject }  // a closure in a box of the runtime's
      expectOneHookAtTheEnd { Value(text: "boxed") as AnyObject }
      expectOneHookAtTheEnd { Value.self as AnyObject }
      expectOneHookAtTheEnd { "text" as AnyObject }
      expectOneHookAtTheEnd { (Failure.some(1) as any Error) as AnyObject }
      expectOneHookAtTheEnd { [1, 2, 3] as AnyObject }
    }

    @Test func contextOfAClosureItself() {
      struct Holder { let closure: @Sendable () -> Int }
      let remains: ObjectLiveness
      let runs = HookCounter()
      do {
        let captured = HookCounter()
        remains = ObjectLiveness(captured)
        let offset = runs.count
        // A closure is a function and its context: an object without a class, whose metadata is constant. Inside a structure, because
        // a closure that is passed as a generic value is wrapped in another.
        let holder = Holder { captured.count + offset }
        let context = unsafeBitCast(holder, to: (UInt, Unmanaged<AnyObject>).self).1
        let hook = onDeinit(of: context.takeUnretainedValue()) { _, _ in
          runs.add()
          #expect(remains.isAlive)
        }
        #expect(hook.isInstalled)
        #expect(holder.closure() == 0 && runs.count == 0)
      }
      #expect(runs.count == 1 && !remains.isAlive)
    }
  #endif

  @Test func bufferClassesWithTailAllocation() {
    final class Buffer: ManagedBuffer<Int, UInt8> {}
    expectOneHookAtTheEnd { Buffer.create(minimumCapacity: 100) { _ in 7 } }
  }

  @Test func keyPathsAndOtherObjectsOfTheStandardLibrary() {
    struct Pair { var left: [Int] }
    expectOneHookAtTheEnd { (\Pair.left as AnyKeyPath).appending(path: \[Int].[0])! }
  }

  @Test func objectsThatNeverEndCarryHooksInVain() {
    final class Static: Sendable {}
    enum Holder { static let object = Static() }
    let hook = onDeinit(of: Holder.object) { _, _ in Issue.record("a static object has no end") }
    #expect(hook.isInstalled)
    #expect(hook.cancel())
  }

  @Test func initThatThrowsAfterSelfEscaped() {
    struct Failure: Error {}
    class Escaping {
      let log: EventLog
      let text = String(repeating: "x", count: 100)
      init(_ log: EventLog, fails: Bool) throws {
        self.log = log
        onDeinit(of: self) { dying, _ in log.add("hook \(dying._withUnsafeGuaranteedRef { $0.text.count })") }
        if fails { throw Failure() }
      }
      deinit { log.add("base deinit") }
    }
    final class Derived: Escaping {
      let more: [Int]
      override init(_ log: EventLog, fails: Bool) throws {
        more = [1, 2, 3]
        try super.init(log, fails: fails)
      }
      init(after log: EventLog) throws {
        more = [4]
        try super.init(log, fails: false)
        throw Failure()
      }
      deinit { log.add("derived deinit \(more.count)") }
    }
    let log = EventLog()
    #expect(throws: Failure.self) { try Escaping(log, fails: true) }
    #expect(log.events == ["hook 100", "base deinit"])
    #expect(throws: Failure.self) { try Derived(log, fails: true) }
    #expect(log.events.dropFirst(2) == ["hook 100", "derived deinit 3", "base deinit"])
    #expect(throws: Failure.self) { try Derived(after: log) }
    #expect(log.events.dropFirst(5) == ["hook 100", "derived deinit 1", "base deinit"])
  }

  @Test func objectsWithWeakAndUnownedReferences() {
    final class Observer {
      weak var weakly: HookedBase?
      unowned var unownedly: HookedBase
      init(_ object: HookedBase) {
        weakly = object
        unownedly = object
      }
    }
    let log = EventLog()
    var object: HookedBase? = HookedBase(log)
    let remains = ObjectLiveness(object!)
    let observer = Observer(object!)
    onDeinit(of: object!) { _, _ in log.add("hook, alive: \(remains.isAlive)") }
    weak var late = object
    #expect(observer.unownedly === object && observer.weakly === object && late === object)
    object = nil
    late = observer.weakly
    #expect(observer.weakly == nil && late == nil)
    #expect(log.events == ["hook, alive: false", "base deinit"])
  }

  @Test func releaseAsTheLastUse() {
    let runs = HookCounter()
    for round in 1...100 {
      // Nothing uses the object after its hook was installed: an optimised build frees it there and then, if not on its stack.
      onDeinit(of: LastUse(round)) { dying, _ in
        #expect(dying._withUnsafeGuaranteedRef { $0.number } == round)
        runs.add()
      }
      #expect(runs.count == round)
    }
    var remains: ObjectLiveness?
    do {
      let local = LastUse(0)
      remains = ObjectLiveness(local)
      onDeinit(of: local) { _, _ in runs.add() }
    }
    #expect(runs.count == 101 && remains?.isAlive == false)
  }

  final class LastUse {
    let number: Int
    init(_ number: Int) { self.number = number }
  }
}

@MainActor private final class OnMain {
  nonisolated init() {}
}

private actor OwnExecutor {
  nonisolated var unownedExecutor: UnownedSerialExecutor { MainActor.sharedUnownedExecutor }
}

@MainActor private final class Isolated {
  let atEnd: @Sendable () -> Void
  nonisolated init(_ atEnd: @escaping @Sendable () -> Void) { self.atEnd = atEnd }
  isolated deinit { atEnd() }
}
