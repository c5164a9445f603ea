#if !canImport(ObjectiveC)
  import Foundation

  extension OwnedOperation {
    /// Foundation's base class and queues want to hear of the finish and of the readiness. Nobody else can observe an operation here.
    final func tellFoundation(_ key: FoundationKey) {
      switch key {
      case .isReady, .isFinished: didChangeValue(forKey: key.rawValue)
      case .isExecuting, .isCancelled: break
      }
    }
  }

  /// How a ``FinishSentinel`` watches: it depends on the operation, whose finish makes the base class ask it `isReady`.
  struct FinishWatch {
    mutating func begin(_ sentinel: FinishSentinel, of operation: Operation) { sentinel.addDependency(operation) }
    func end(_ sentinel: FinishSentinel, of operation: Operation) { sentinel.removeDependency(operation) }
  }

  extension PlainOperationDependencies {
    /// An operation that was cancelled, or that overrides `isReady`, may finish, and go, before what it depends on. Its dependency would
    /// still have an unretained pointer to it. The dependency follows that pointer when it announces its own finish, at some time after its
    /// `isFinished` has become true.
    func leave() {
      for dependency in operation.dependencies where !Self.hasAnnouncedFinish(dependency) { operation.removeDependency(dependency) }
    }

    /// Only the base class knows: an operation that is made to depend on one that has announced its finish is ready.
    private static func hasAnnouncedFinish(_ operation: Operation) -> Bool {
      let probe = Operation()
      probe.addDependency(operation)
      defer { probe.removeDependency(operation) }  // which would know the probe unretained, too
      return probe.isReady
    }
  }
#endif
