#if OWNED_OPERATIONS_MODEL
  @testable import OwnedOperations
#endif

/// Those of the model build's defects that are put into requests, their transfers and turns: see `Mutation`. In any other build there is
/// none.
enum TransferMutation: String {
  case joinsWhatIsOver, taskMissesTheLastLeave, leaverGivesATurnBack, leaverGetsATurn
  case runMissesTheEnd, placeMissesTheEnd, beginsWhenOver

  #if OWNED_OPERATIONS_MODEL
    var isOn: Bool { Mutation(rawValue: rawValue)?.isOn ?? false }
  #else
    var isOn: Bool { false }
  #endif
}
