#if !canImport(ObjectiveC)
  import COwnedOperations
  import Synchronization

  /// Proves on a class of our own that objects are laid out as the metadata route believes, before it is tried on anybody else's.
  enum DeinitSelfCheck {
    /// What happened to a canary, step by step.
    private final class Journal: Sendable {
      let hookSaw = Atomic<UInt>(0)
      let hookRanFirst = Atomic<Bool>(false)
      let destroyerRan = Atomic<Bool>(false)
    }

    private final class Canary {
      let journal: Journal
      init(_ journal: Journal) { self.journal = journal }
      deinit { journal.destroyerRan.store(true, ordering: .relaxed) }
    }

    private static let lock = Lock()
    /// The canary that is being examined; others of its class say nothing.
    private static let examined = Atomic<UInt>(0)

    /// Hooks the canary's class, lets a canary go, and looks whether hook and destroyer ran, in that order and on that object. The
    /// class is put back in any case.
    ///
    /// - Parameter intervene: called with the canary while its class is hooked. A test that keeps it alive makes the check fail.
    static func passes(intervene: ((AnyObject) -> Void)? = nil) -> Bool {
      lock.lock()
      defer { lock.unlock() }
      let journal = Journal()
      let canary = makeCanary(journal)
      let remains = ObjectLiveness(canary.borrowed.object)
      let pointer = canary.address
      let hooked = coo_destroyer_is_code(pointer) && coo_hook_class_of(pointer) { DeinitSelfCheck.hookRan($0) }
      if hooked { intervene?(canary.borrowed.object) }
      examined.store(UInt(bitPattern: pointer), ordering: .relaxed)
      canary.release()
      examined.store(0, ordering: .relaxed)
      let witness = makeCanary(Journal())
      defer { witness.release() }
      coo_unhook_class_of(witness.address)
      return hooked && !coo_is_class_hooked(witness.address) && journal.hookSaw.load(ordering: .relaxed) == UInt(bitPattern: pointer)
        && journal.hookRanFirst.load(ordering: .relaxed) && journal.destroyerRan.load(ordering: .relaxed) && !remains.isAlive
    }

    /// Not inlined, and not released by a variable's end. A canary that the optimiser sees being born and freed may die early, or without
    /// its class being asked.
    @inline(never)
    private static func makeCanary(_ journal: Journal) -> Retained<Canary> { Retained(Canary(journal)) }

    private static func hookRan(_ object: UnsafeMutableRawPointer) {
      // An address other than the canary's is not looked into: it may be anything.
      guard UInt(bitPattern: object) == examined.load(ordering: .relaxed) else { return }
      Borrowed<Canary>(address: object).with {
        $0.journal.hookSaw.store(UInt(bitPattern: object), ordering: .relaxed)
        $0.journal.hookRanFirst.store(!$0.journal.destroyerRan.load(ordering: .relaxed), ordering: .relaxed)
      }
    }
  }
#endif
