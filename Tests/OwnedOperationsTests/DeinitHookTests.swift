import Dispatch
import Foundation
import Synchronization
import Testing

@testable import OwnedOperations

/// What happened, in order, from any thread.
final class EventLog: @unchecked Sendable {  // `lines` is guarded by `lock`
  private let lock = NSLock()
  private var lines: [String] = []

  func add(_ line: String) { lock.withLock { lines.append(line) } }
  var events: [String] { lock.withLock { lines } }
}

class HookedBase {
  let log: EventLog
  init(_ log: EventLog) { self.log = log }
  deinit { log.add("base deinit") }
}

class HookedMiddle: HookedBase {
  let payload = "whole"
  deinit { log.add("middle deinit") }
}

final class HookedLeaf: HookedMiddle {
  deinit { log.add("leaf deinit") }
}

final class HookCounter: Sendable {
  let value = Atomic<Int>(0)
  func add() { value.wrappingAdd(1, ordering: .relaxed) }
  var count: Int { value.load(ordering: .relaxed) }
}

@Suite struct DeinitHookTests {
  @Test func mechanismIsTheClassMetadataHere() {
    #if !canImport(ObjectiveC)
      #expect(DeinitHook.mechanism == .classMetadata)
    #else
      #expect(DeinitHook.mechanism == .associatedObject)
    #endif
  }

  @Test func hookSeesTheObjectWholeBeforeItsDeinitBody() {
    let log = EventLog()
    do {
      let object = HookedLeaf(log)
      let address = Unmanaged.passUnretained(object).toOpaque()
      let atEnd = UInt(bitPattern: address)
      onDeinit(of: object) { dying, _ in
        #expect(UInt(bitPattern: dying.toOpaque()) == atEnd)
        dying._withUnsafeGuaranteedRef { log.add("hook sees \($0.payload)") }
      }
    }
    #expect(log.events == ["hook sees whole", "leaf deinit", "middle deinit", "base deinit"])
  }

  @Test func hookReceivesItself() {
    let log = EventLog()
    var object: HookedBase? = HookedBase(log)
    let hook = onDeinit(of: object!) { _, hook in log.add("\(hook.identifier)") }
    object = nil
    #expect(log.events == ["\(hook.identifier)", "base deinit"])
  }

  @Test func hooksRunInOrderOfIdentifier() {
    let log = EventLog()
    var object: HookedBase? = HookedBase(log)
    let hooks = (0..<5).map { index in onDeinit(of: object!) { _, _ in log.add("\(index)") } }
    #expect(hooks.map(\.identifier) == hooks.map(\.identifier).sorted() && Set(hooks).count == 5)
    object = nil
    #expect(log.events == ["0", "1", "2", "3", "4", "base deinit"])
  }

  @Test func sameNameReplaces() {
    let log = EventLog()
    var object: HookedBase? = HookedBase(log)
    let first = onDeinit(of: object!, name: "a") { _, _ in log.add("first a") }
    onDeinit(of: object!, name: "b") { _, _ in log.add("b") }
    let second = onDeinit(of: object!, name: "a") { _, _ in log.add("second a") }
    #expect(!first.isInstalled && second.isInstalled)
    #expect(!first.cancel())
    object = nil
    #expect(log.events == ["b", "second a", "base deinit"])
  }

  @Test func replacedAndCancelledHooksLetGoOfTheirCaptures() {
    let log = EventLog()
    let object = HookedBase(log)
    var captured: [HookedBase?] = (0..<3).map { _ in HookedBase(log) }
    let remains = captured.map { ObjectLiveness($0!) }
    for index in 0..<2 { onDeinit(of: object, name: "same") { [held = captured[index].map(Pinned.init)] _, _ in _ = held } }
    let hook = onDeinit(of: object) { [held = captured[2].map(Pinned.init)] _, _ in _ = held }
    captured = []
    #expect(remains.map(\.isAlive) == [false, true, true])
    hook.cancel()
    #expect(remains.map(\.isAlive) == [false, true, false])
    cancelDeinitHooks(of: object)
    #expect(remains.map(\.isAlive) == [false, false, false])
  }

  @Test func cancelSaysWhetherItRemovedAHookThatHadNotRun() {
    let log = EventLog()
    var object: HookedBase? = HookedBase(log)
    let cancelled = onDeinit(of: object!) { _, _ in log.add("cancelled") }
    let kept = onDeinit(of: object!) { _, hook in
      log.add("kept")
      #expect(!hook.isInstalled && !hook.cancel())
    }
    #expect(cancelled.isInstalled)
    #expect(cancelled.cancel())
    #expect(!cancelled.isInstalled)
    #expect(!cancelled.cancel())
    object = nil
    #expect(!kept.cancel())
    #expect(log.events == ["kept", "base deinit"])
  }

  @Test func cancelDeinitHooksRemovesAllOfOneObject() {
    let log = EventLog()
    var object: HookedBase? = HookedBase(log)
    let other = HookedBase(log)
    let hooks = (0..<3).map { _ in onDeinit(of: object!) { _, _ in log.add("hook") } }
    let kept = onDeinit(of: other) { _, _ in }
    cancelDeinitHooks(of: object!)
    #expect(hooks.allSatisfy { !$0.isInstalled } && kept.isInstalled)
    object = nil
    #expect(log.events == ["base deinit"])
    cancelDeinitHooks(of: HookedBase(log))  // nothing to cancel
  }

  @Test func manyHooksOnOneObjectAreCancelledWithoutRecursion() {
    let runs = HookCounter()
    let object = HookedBase(EventLog())
    for _ in 0..<200_000 { onDeinit(of: object) { _, _ in runs.add() } }
    cancelDeinitHooks(of: object)
    #expect(runs.count == 0)
  }

  @Test func manyHooksOnOneObjectAllRun() {
    let runs = HookCounter()
    var object: HookedBase? = HookedBase(EventLog())
    for _ in 0..<200_000 { onDeinit(of: object!) { _, _ in runs.add() } }
    object = nil
    #expect(runs.count == 200_000)
  }

  // From inside a hook ----------------------------------------------------------------------------------------------

  @Test func aHookCancelsLaterOnesOfItsObject() {
    let log = EventLog()
    var object: HookedBase? = HookedBase(log)
    let later = Guarded<[DeinitHook]>([])
    onDeinit(of: object!) { _, _ in later.withLock { $0.removeFirst() }.cancel() }
    let hooks = (1...3).map { index in onDeinit(of: object!) { _, _ in log.add("\(index)") } }
    later.withLock { $0 = [hooks[1]] }
    object = nil
    #expect(log.events == ["1", "3", "base deinit"])
    #expect(hooks.allSatisfy { !$0.isInstalled })
  }

  @Test func aHookCancelsAllLaterOnesOfItsObject() {
    let log = EventLog()
    var object: HookedBase? = HookedBase(log)
    onDeinit(of: object!) { dying, _ in
      log.add("first")
      dying._withUnsafeGuaranteedRef { cancelDeinitHooks(of: $0) }
    }
    onDeinit(of: object!) { _, _ in log.add("second") }
    object = nil
    #expect(log.events == ["first", "base deinit"])
  }

  @Test func aHookAddsAndCancelsHooksOfOtherObjects() {
    let log = EventLog()
    var object: HookedBase? = HookedBase(log)
    let other = Guarded<HookedBase?>(HookedBase(log))
    let cancelled = other.withLock { onDeinit(of: $0!) { _, _ in log.add("cancelled") } }
    onDeinit(of: object!) { _, _ in
      #expect(cancelled.cancel())
      other.withLock { _ = onDeinit(of: $0!) { _, _ in log.add("added") } }
    }
    object = nil
    #expect(log.events == ["base deinit"])
    other.withLock { $0 = nil }
    #expect(log.events == ["base deinit", "added", "base deinit"])
  }

  @Test func aHookDropsTheLastReferenceToAnotherHookedObject() {
    let log = EventLog()
    var objects = (0..<50).map { _ in HookedBase(log) }
    for index in 0..<49 {
      let next = Guarded<Pinned?>(Pinned(objects[index + 1]))
      onDeinit(of: objects[index]) { _, _ in
        log.add("hook \(index)")
        _ = next.withLock { $0.take() }
      }
    }
    onDeinit(of: objects[49]) { _, _ in log.add("hook 49") }
    #expect(log.events.isEmpty)
    objects = []
    #expect(log.events.filter { $0.hasPrefix("hook") } == (0..<50).map { "hook \($0)" })
    #expect(log.events.count == 100)
  }

  @Test func whatAHookCapturedIsReleasedBeforeTheNextHookRuns() {
    let log = EventLog()
    var object: HookedBase? = HookedBase(log)
    onDeinit(of: object!) { [held = Pinned(HookedMiddle(log))] _, _ in _ = held }
    onDeinit(of: object!) { _, _ in log.add("second") }
    object = nil
    #expect(log.events == ["middle deinit", "base deinit", "second", "base deinit"])
  }

  // Refusals --------------------------------------------------------------------------------------------------------

  #if !canImport(ObjectiveC)
    @Test func hookOnAnObjectAlreadyDeinitialisingIsRefused() {
      final class Late {
        let verdict: Guarded<[String]>
        init() { verdict = Guarded([]) }
        let done = DoneBox()
        deinit {
          let done = done
          let inert = onDeinit(of: self) { _, _ in
            Issue.record("must not run")
          } ifRefused: { error in
            done.error.withLock { $0 = error }
          }
          done.inert.withLock { $0 = inert }
          cancelDeinitHooks(of: self)
        }
      }
      final class DoneBox: Sendable {
        let error = Guarded<DeinitHookError?>(nil)
        let inert = Guarded<DeinitHook?>(nil)
      }
      let done = Late().done
      let error = done.error.withLock { $0 }
      #expect(error == .objectIsDeinitialising(type: "Late"))
      #expect("\(error!)".contains("Late") && "\(error!)".contains("while the object is referenced"))
      let inert = done.inert.withLock { $0 }
      #expect(inert != nil && inert?.isInstalled == false && inert?.cancel() == false)
    }

    @Test func hookOnItsOwnObjectFromInsideAHookIsRefused() {
      let log = EventLog()
      var object: HookedBase? = HookedBase(log)
      for _ in 0..<2 {  // in the last hook the table no longer knows the object
        onDeinit(of: object!) { dying, _ in
          dying._withUnsafeGuaranteedRef { object in
            var refusal: DeinitHookError?
            onDeinit(of: object) { _, _ in
              log.add("must not run")
            } ifRefused: {
              refusal = $0
            }
            #expect(refusal == .objectIsDeinitialising(type: "HookedBase"))
          }
        }
      }
      object = nil
      #expect(log.events == ["base deinit"])
    }

    #if compiler(>=6.2)
      @Test func savingADyingObjectIsNotSilent() async {
        await #expect(processExitsWith: .failure) {
          nonisolated(unsafe) var saved: HookedBase?
          var object: HookedBase? = HookedBase(EventLog())
          onDeinit(of: object!) { dying, _ in saved = dying.takeUnretainedValue() }
          object = nil
          withExtendedLifetime(saved) {}
        }
      }
    #endif
  #endif

  @Test func cancellingAfterAnotherObjectTookTheAddressTouchesNothing() {
    let runs = HookCounter()
    var reused = false
    for _ in 0..<1_000 where !reused {
      var object: HookCounter? = HookCounter()
      let address = DeinitRegistry.key(of: object!)
      let old = onDeinit(of: object!) { _, _ in runs.add() }
      object = nil
      var next: HookCounter? = HookCounter()
      reused = DeinitRegistry.key(of: next!) == address
      let new = onDeinit(of: next!) { _, _ in runs.add() }
      #expect(!old.cancel() && !old.isInstalled && new.isInstalled)
      let before = runs.count
      next = nil
      #expect(runs.count == before + 1)
    }
  }
}

/// Carries a reference into a `@Sendable` closure of a test.
struct Pinned: @unchecked Sendable {  // the tests hand it from one place to one other
  let object: AnyObject
  init(_ object: AnyObject) { self.object = object }
}

/// A variable behind a lock that the sanitizer sees.
final class Guarded<Value>: @unchecked Sendable {  // `value` is guarded by `lock`
  private let lock = NSLock()
  private var value: Value

  init(_ value: Value) { self.value = value }

  func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
    lock.lock()
    defer { lock.unlock() }
    return try body(&value)
  }
}
