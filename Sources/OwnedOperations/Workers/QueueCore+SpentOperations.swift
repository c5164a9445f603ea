/// Operations that have been run and are no more than memory, on their way back to who adds others (`ReturnTray`).
///
/// An operation is seven allocations of Foundation's and one of ours. While one thread makes operations and another runs them, a third of
/// the time of both had gone to malloc's lock. See `P2-operations` in Benchmarks/README.md.
///
/// - A worker gives back what is over (`isSpent`), if it has more to run: else there is time enough.
/// - Who adds an operation lets go of one. It may hold locks of the user's, so what it lets go of must run no code of the user's.
/// - A worker that finds no more work lets go of all, before it leaves. If a body takes long meanwhile, a timer does.
extension QueueCore {
  /// On a worker's thread, which holds the operation.
  func giveBack(_ operation: OwnedOperation, turn: UInt) {
    spentOperations.object(madeBy: { Self.makeTray() }).with { $0.put(operation, turn: turn) }
  }

  /// By who has added so many operations.
  func takeBackOne(turn: Int) { spentOperations.object?.with { $0.take(turn: UInt(truncatingIfNeeded: turn)) } }

  func takeBackAll() { spentOperations.object?.with { $0.takeAll() } }

  private static func makeTray() -> ReturnTray<OwnedOperation> {
    ReturnTray { operation in
      // Somebody else may hold it, and have added something meanwhile.
      if operation.keepsNothing { return }
      DeferredReleases.add(consume operation)
    }
  }
}
