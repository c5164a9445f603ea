import Foundation
import Testing

@testable import OwnedOperations

#if !canImport(ObjectiveC)
  import COwnedOperations
#endif

private final class Attached: DeinitAttachment {
  let liveness: ObjectLiveness?
  let ends = HookCounter()
  let atEnd: @Sendable () -> Void

  init(_ liveness: ObjectLiveness?, atEnd: @escaping @Sendable () -> Void = {}) {
    self.liveness = liveness
    self.atEnd = atEnd
  }

  func attachedObjectDidEnd() {
    ends.add()
    atEnd()
  }
}

private final class Plain: Sendable {}

@Suite struct DeinitAttachmentTests {
  @Test func attachmentIsFoundAgainByIdentity() throws {
    let registry = DeinitRegistry.shared
    let object = Plain()
    let other = Plain()
    let attachment = try #require(registry.attachment(of: object) { Attached($0) } as? Attached)
    #expect(attachment.liveness == nil)  // somebody will tell
    let again = registry.attachment(of: object) {
      Issue.record("made twice")
      return Attached($0)
    }
    #expect(again === attachment)
    #expect(registry.attachment(of: other) { Attached($0) } !== attachment)
    #expect(attachment.ends.count == 0)
  }

  @Test func attachmentEndsBeforeTheHooksAndIsReleased() {
    let log = EventLog()
    var object: HookedBase? = HookedBase(log)
    weak var attachment: Attached?
    onDeinit(of: object!) { _, _ in log.add("hook") }
    do {
      let made = DeinitRegistry.shared.attachment(of: object!) { Attached($0) { log.add("attachment") } }
      attachment = made as? Attached
    }
    #expect(attachment != nil)
    object = nil
    #expect(attachment == nil)
    #expect(log.events == ["attachment", "hook", "base deinit"])
  }

  @Test func anAttachmentsEndCancelsHooksOfTheObject() {
    let log = EventLog()
    var object: HookedBase? = HookedBase(log)
    let hook = onDeinit(of: object!) { _, _ in log.add("hook") }
    _ = DeinitRegistry.shared.attachment(of: object!) { Attached($0) { #expect(hook.cancel()) } }
    object = nil
    #expect(log.events == ["base deinit"])
  }

  @Test func cancellingHooksLeavesTheAttachment() throws {
    let object = Plain()
    let attachment = try #require(DeinitRegistry.shared.attachment(of: object) { Attached($0) })
    let hook = onDeinit(of: object) { _, _ in }
    cancelDeinitHooks(of: object)
    #expect(!hook.isInstalled)
    #expect(DeinitRegistry.shared.attachment(of: object) { Attached($0) } === attachment)
  }

  @Test(arguments: [false, true]) func eightThreadsAskingAtOnceGetOneAttachment(byWeakReference: Bool) {
    let registry = byWeakReference ? DeinitRegistry(mechanism: .weakReference) : DeinitRegistry.shared
    for _ in 0..<200 {
      let made = HookCounter()
      let object = Plain()
      let results = Guarded<[ObjectIdentifier]>([])
      let gate = DispatchSemaphore(value: 0)
      let threads = DispatchGroup()
      for _ in 0..<8 {
        threads.enter()
        Thread.detachNewThread {
          gate.wait()
          let attachment = registry.attachment(of: object) {
            made.add()
            return Attached($0)
          }
          results.withLock { $0.append(ObjectIdentifier(attachment!)) }
          threads.leave()
        }
      }
      for _ in 0..<8 { gate.signal() }
      threads.wait()
      #expect(made.count == 1)
      results.withLock { #expect($0.count == 8 && Set($0).count == 1) }
    }
  }

  #if !canImport(ObjectiveC)
    @Test(arguments: [false, true]) func objectAlreadyDeinitialisingHasNoAttachment(byWeakReference: Bool) {
      final class Late {
        let registry: DeinitRegistry
        let refused: HookCounter
        init(_ registry: DeinitRegistry, _ refused: HookCounter) {
          self.registry = registry
          self.refused = refused
        }
        deinit { if registry.attachment(of: self, create: { Attached($0) }) == nil { refused.add() } }
      }
      let registry = byWeakReference ? DeinitRegistry(mechanism: .weakReference) : DeinitRegistry.shared
      let refused = HookCounter()
      _ = Late(registry, refused)
      do {
        let object = Late(registry, refused)
        let attachment = registry.attachment(of: object) { Attached($0) }
        #expect(attachment != nil)
        onDeinit(of: object) { dying, _ in
          dying._withUnsafeGuaranteedRef { if registry.attachment(of: $0, create: { Attached($0) }) == nil { refused.add() } }
        }
      }
      // By weak reference the first attachment, which is still in the table, must not be taken for one of a living object.
      #expect(refused.count == 3)
    }
  #endif
}

@Suite struct DeinitFallbackTests {
  @Test func hooksAreRefusedByWeakReference() {
    let registry = DeinitRegistry(mechanism: .weakReference)
    let error = #expect(throws: DeinitHookError.self) {
      try registry.install(on: Plain(), name: nil) { _, _ in Issue.record("must not run") }
    }
    #expect(error == .hooksUnavailable(type: "Plain"))
    #expect("\(error!)".contains("Plain") && "\(error!)".contains("Token"))
  }

  @Test func attachmentsWorkByWeakReference() throws {
    let registry = DeinitRegistry(mechanism: .weakReference)
    var object: Plain? = Plain()
    let attachment = try #require(registry.attachment(of: object!) { Attached($0) } as? Attached)
    #expect(registry.attachment(of: object!) { Attached($0) } === attachment)
    let liveness = try #require(attachment.liveness)
    #expect(liveness.isAlive)
    object = nil
    #expect(!liveness.isAlive)
  }

  @Test func anAttachmentIsNotInheritedByTheNextObjectAtTheAddress() {
    let registry = DeinitRegistry(mechanism: .weakReference)
    var reused = 0
    for _ in 0..<1_000 {
      var object: Plain? = Plain()
      let address = DeinitRegistry.key(of: object!)
      let old = registry.attachment(of: object!) { Attached($0) } as? Attached
      object = nil
      let next = Plain()
      let new = registry.attachment(of: next) { Attached($0) } as? Attached
      #expect(new !== old && new?.liveness?.isAlive == true && old?.liveness?.isAlive == false)
      if DeinitRegistry.key(of: next) == address {
        reused += 1
        #expect(old?.ends.count == 1)  // found dead, and told
      }
    }
  }

  @Test func attachmentsOfTheDeadAreSweptOnce() {
    let registry = DeinitRegistry(mechanism: .weakReference)
    let ends = HookCounter()
    let kept = (0..<100).map { _ in Plain() }
    for object in kept { _ = registry.attachment(of: object) { Attached($0) { Issue.record("swept alive") } } }
    var largest = 0
    for _ in 0..<200 {
      let batch = (0..<50).map { _ in Plain() }
      for object in batch { _ = registry.attachment(of: object) { Attached($0) { ends.add() } } }
      largest = max(largest, registry.weakAttachments.count)
    }
    #expect(largest <= 2 * (100 + 50) + 64)
    #expect(ends.count >= 200 * 50 - largest && ends.count <= 200 * 50)
    withExtendedLifetime(kept) {}
  }

  @Test func sweepingMayEndTheLastReferenceOfAnObjectThatAsksBack() {
    // While the table is swept, other threads drop the objects in it, whose deinits ask the same table.
    final class AsksBack: Sendable {
      let registry: DeinitRegistry
      let asked: HookCounter
      init(_ registry: DeinitRegistry, _ asked: HookCounter) {
        self.registry = registry
        self.asked = asked
      }
      deinit {
        let other = Plain()
        _ = registry.attachment(of: other) { Attached($0) }
        asked.add()
      }
    }
    let registry = DeinitRegistry(mechanism: .weakReference)
    let asked = HookCounter()
    DispatchQueue.concurrentPerform(iterations: 8) { _ in
      for _ in 0..<2_000 { _ = registry.attachment(of: AsksBack(registry, asked)) { Attached($0) } }
    }
    #expect(asked.count == 16_000)
  }

  #if !canImport(ObjectiveC)
    @Test func selfCheckPassesHere() {
      #expect(DeinitRegistry.shared.mechanism == .classMetadata)
      #expect(DeinitSelfCheck.passes())
      #expect(DeinitSelfCheck.passes())
    }

    @Test func selfCheckFailsWhenTheHookDoesNotRunAndPutsTheClassBack() {
      _ = DeinitRegistry.shared
      var canary: AnyObject?
      var wasHooked = false
      let passes = DeinitSelfCheck.passes {
        canary = $0
        wasHooked = coo_is_class_hooked(Unmanaged.passUnretained($0).toOpaque())
      }
      #expect(!passes && wasHooked)
      let remains = ObjectLiveness(canary!)
      #expect(!coo_is_class_hooked(Unmanaged.passUnretained(canary!).toOpaque()))
      canary = nil  // dies by its own destroyer
      #expect(!remains.isAlive)
    }

    @Test func aClassCanBeUnhookedAndHookedAgain() {
      final class Again {}
      let runs = HookCounter()
      var object: Again? = Again()
      let pointer = Unmanaged.passUnretained(object!).toOpaque()
      for _ in 0..<3 {
        let hook = onDeinit(of: object!) { _, _ in runs.add() }
        #expect(coo_is_class_hooked(pointer))
        hook.cancel()
        coo_unhook_class_of(pointer)
        #expect(!coo_is_class_hooked(pointer))
      }
      onDeinit(of: object!) { _, _ in runs.add() }
      object = nil
      #expect(runs.count == 1)
    }

    @Test func classesShareTheHookWithSubclassesMadeFromTheirMetadata() {
      // What a runtime would do that copied the superclass's destroyer into new metadata: the word is ours, the class is unknown.
      class Base {
        let runs: HookCounter
        init(_ runs: HookCounter) { self.runs = runs }
        deinit { runs.add() }
      }
      final class Copy: Base {}
      let runs = HookCounter()
      let hooks = HookCounter()
      var base: Base? = Base(runs)
      onDeinit(of: base!) { _, _ in hooks.add() }
      var copy: Copy? = Copy(runs)
      let baseMetadata = unsafeBitCast(Base.self, to: UnsafeMutablePointer<UInt>.self)
      let copyMetadata = unsafeBitCast(Copy.self, to: UnsafeMutablePointer<UInt>.self)
      (copyMetadata - 2).pointee = (baseMetadata - 2).pointee
      onDeinit(of: copy!) { _, _ in hooks.add() }
      copy = nil
      #expect(hooks.count == 1 && runs.count == 1)
      base = nil
      #expect(hooks.count == 2 && runs.count == 2)
    }

    @Test func tryRetainRefusesTheDying() {
      let results = Guarded<[Bool]>([])
      func tries(_ pointer: UnsafeMutableRawPointer) {
        let retained = coo_try_retain(pointer)
        if let retained { Unmanaged<AnyObject>.fromOpaque(retained).release() }
        results.withLock { $0.append(retained != nil) }
      }
      var object: HookedBase? = HookedBase(EventLog())
      tries(Unmanaged.passUnretained(object!).toOpaque())
      onDeinit(of: object!) { dying, _ in
        let retained = coo_try_retain(dying.toOpaque())
        results.withLock { $0.append(retained != nil) }
      }
      object = nil
      results.withLock { #expect($0 == [true, false]) }
    }
  #endif
}
