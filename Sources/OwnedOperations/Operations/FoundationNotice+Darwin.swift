#if canImport(ObjectiveC)
  import Foundation

  extension OwnedOperation {
    /// All who observe the operation by its keys hear of the change, Foundation's queues among them.
    final func tellFoundation(_ key: FoundationKey) {
      willChangeValue(forKey: key.rawValue)
      didChangeValue(forKey: key.rawValue)
    }

    /// Whether somebody may hear of the finish: always, because whoever observes a key needs no reference.
    final func mayBeHeardFinishing(_ word: StateWord, isInHand: Bool) -> Bool { true }
  }

  /// How a ``FinishSentinel`` watches: it observes `isFinished`.
  struct FinishWatch {
    private var observation: NSKeyValueObservation?

    init() {}

    mutating func begin(_ sentinel: FinishSentinel, of operation: Operation) {
      observation = operation.observe(\.isFinished, options: [.initial]) { [weak sentinel] operation, _ in
        if operation.isFinished { sentinel?.fire() }
      }
    }

    func end(_ sentinel: FinishSentinel, of operation: Operation) { observation?.invalidate() }
  }

  extension PlainOperationDependencies {
    /// What is depended on knows nobody unretained here.
    func leave() {}
  }
#endif
