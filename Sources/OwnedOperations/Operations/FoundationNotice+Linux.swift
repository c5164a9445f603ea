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

    /// Whether somebody may hear of the finish by the base class, now or later: a plain operation that depends on this one or will do so.
    /// For that it has to have a reference. To tell it takes five locks and a tenth of all the time that an operation costs.
    ///
    /// Asked when neither lifetime nor scheduler has it any more. The worker that has it in hand lets go of it without having run any more
    /// code of the user's for which it is kept, unless it is observed or has a completion block. If that one's reference is the only one,
    /// strong or weak, nobody can come by one. No memory order is needed: whoever else had a reference, and let go of it, has none to ask
    /// with.
    /// - Parameters:
    ///   - word: at the finish.
    ///   - isInHand: this thread is that worker's, and no completion block is to come. The body may have finished it, and may know it
    ///     without a reference.
    final func mayBeHeardFinishing(_ word: StateWord, isInHand: Bool) -> Bool {
      if isUnknown { return false }
      guard isInHand, endsWithItsFinish, !word.contains(.isObserved), !OperationThread.isInside(self) else { return true }
      if Mutation.weakReferencesAreDeaf.isOn, Borrowed(self).referenceCount == 1 { return false }
      return !Borrowed(self).hasOneReference
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
