import Foundation

/// A defect that can be put into the model build, one at a time, with `MODEL_MUTATION`: some scenario must find it. `.ci/check-mutations`
/// tries each.
/// In any other build there is none.
///
/// The comment over a group says which tests are to find them: they are tried first.
enum Mutation: String, CaseIterable {
  // The operation's state word: OperationModelTests DependencyModelTests
  /// A start that has been claimed runs the work without a look at the lifetime.
  case startSkipsTheLifetime  // everyTwo
  /// Who is cancelled already handles the cancellation again.
  case cancelsTwice  // twoCancel
  /// Who finishes doesn't claim the finish.
  case finishesTwice  // twoFinishAnAsynchronousOperation
  /// The scheduler starts an operation though a dependency was added meanwhile.
  case startsBlocked
  /// Somebody waits without looking, under the lock, whether the operation has finished.
  case waiterLooksTooEarly  // everyTwo
  /// A failed dependency and a new policy don't meet in one word.
  case policyMissesTheFailure  // requiresSuccessWhileItFails
  /// A dependency that is removed while it fails is kept for its name.
  case removedFailureIsKept  // removedWhileItFails
  /// The timer of a timeout is kept by an operation that has finished.
  case timerOutlivesTheFinish  // timesOutWhileItFinishes
  /// Who asks an operation hears of its owner's end when the reaper has come by.
  case cancellationWaitsForTheReaper  // itIsCancelledWhenTheEndHasReturned
  /// An operation of a list that was refused as a whole stays in the scheduler's hands.
  case takenBackStaysAttached  // oneOperationIsAddedToTwoQueues
  /// Nobody tells those who depend on it of the finish of an operation that was refused for its owner's end.
  case refusalTellsNobody  // whatIsBehindAnOperationRunsWhoeverIsFirst
  /// An operation that is known weakly finishes as one that nobody knows.
  case weakReferencesAreDeaf  // whatIsBehindAnOperationThatIsKnownWeaklyRuns
  /// The place of a task that the queue has listed finishes as one that nobody knows.
  case givenOutIsForgotten  // whatIsBehindATurnThatWasListedRuns

  // Dependencies: DependencyModelTests
  /// A dependency can be resolved before it is counted.
  case countsDependencyLate
  /// A dependent is entered without looking, under the lock, whether the dependency has finished.
  case dependentLooksTooEarly

  // Lifetimes: LifetimeModelTests
  /// Two ends both deal with what the lifetime has.
  case endsTwice  // aSecondEndReturnsWhenEverythingBelowHasEnded
  /// A second end returns, and a hook that comes late runs, while the identifier counts as alive.
  case identifierOutlivesTheEnd  // endsOnce
  /// An end that isn't the first returns though what is below is still to be closed.
  case secondEndMissesTheTree
  /// A hook is added to a list that has been closed.
  case hookMissesTheEnd  // aHookThatComesWhileItEndsRunsOnce
  /// A parent that ends takes a child's hooks out before it ends the child.
  case hookIsLostToTheParent  // aHookComesWhileTheParentEnds
  /// A hook that comes while the list of hooks is being closed runs though the lifetime is alive.
  case hookRunsBeforeTheEnd  // aHookComesWhileTheParentEnds
  /// A child is added to a parent that has ended.
  case childMissesTheEnd  // aChildThatJoinsAParentThatEndsEndsToo
  /// Two links that make a cycle are not looked at one after the other.
  case linksWithoutLock  // cyclesAreRefusedWhoeverComesFirst
  /// A child is entered under a new parent though it has ended on the way there, and stays when it has gone.
  case linkMissesItsOwnEnd
  /// A child that has ended stays with its parent, who reaches it when it has gone.
  case endedChildStays  // theLastReferenceToAChildGoesWhileItsParentEnds
  /// A parent that ends takes hold of a child in its deinit.
  case dyingChildIsHeld  // theLastReferenceToAChildGoesWhileItsParentEnds
  /// A member joins after the reaper was sent.
  case memberMissesTheEnd
  /// A member leaves, and another one takes its place, while the reaper walks the list.
  case memberMovesWhileReaped  // aMemberThatGoesWhileItEndsTakesNobodyAlong

  // What runs in the background: RelayModelTests
  /// A runner that has found nothing leaves without another look.
  case runnerLeavesUnseen
  /// A runner that leaves doesn't look whether something has been pushed meanwhile.
  case runnerMissesAPush
  /// Nobody takes over what a runner that stands still has left.
  case nobodyTakesOver
  /// The timer of what is released without haste says that it isn't set any more when it has taken what there was.
  case gathererForgetsItsTimer
  /// Who hands over what was gathered doesn't wait for a timer that has taken it and not handed it over.
  case handOverOvertakesTheTimer
  /// Values are gathered in a segment in which a runner is still about to claim.
  case segmentIsUsedAgainTooEarly  // aRunnerThatIsReplacedTooEarlyLeavesAfterItsStep
  /// Who has told a progress an old count doesn't look again.
  case oldCountIsToldLast
  /// Who tells a progress says that it is not on its way any more when it has told it.
  case tellerComesOffLate
  /// A thread that is called stays among those that are parked until it wakes.
  case parkedThreadIsCalledTwice  // aParkedThreadRunsWhatComesNext
  /// A thread is called before its work is there.
  case parkedThreadIsCalledTooEarly  // aParkedThreadRunsWhatComesNext

  // Owners that only their bodies hold, and blocks of dispatch queues: HoldModelTests
  /// A block that has been claimed runs without a look at the lifetime.
  case blockSkipsTheLifetime  // aBlockAndTheEndOfItsOwner
  /// A block that gives its claim back doesn't look whether its lifetime has ended meanwhile.
  case heldBackBlockMissesTheEnd  // aBlockIsHeldBackWhileItsLifetimeEnds
  /// A body begins though only bodies hold the owner.
  case bodiesKeepTheOwner
  /// References are compared with a count of bodies that may be of another moment.
  case holdTrustsOneLook
  /// A body that waits for work of its own owner counts as one that holds the owner.
  case waitingBodyCounts
  /// A job that its worker can't run is put back though all that was pending has been cancelled meanwhile.
  case workInHandOutlivesTheCancel  // aJobInHandIsCancelledWithAllOthers
  /// A delayed block that is handed over when its lifetime has just ended keeps what it captured until its time.
  case delayedBlockMissesTheEnd  // whatIsDelayedIsReleasedAtTheEnd
  /// The hold that an owner gets a second time, by another thread, takes the place of the first.
  case laterHoldIsKept  // anOwnerHasOneHold
  /// A body is counted when it has taken its reference.
  case bodyIsCountedLate  // noBodyBeginsWhenOnlyBodiesHoldTheOwner
  /// A body lets go of its reference before it says that it is about to.
  case bodyLetsGoUnannounced  // anEventReachesAnOwnerThatABodyLetsGoOf
  /// A queue that was on its way holds the owner for an operation that is over.
  case ownerIsHeldAfterTheEnd  // anOperationThatIsOverHoldsNoOwner
  /// Work is held back without a look whether the last body has gone meanwhile.
  case heldBackWorkIsForgotten
  /// A worker with work in hand lets go of an owner on its thread if somebody else holds it, who may let go first.
  case letsGoWithWorkInHand  // aWorkerLetsGoOfAnOwnerWithItsNextJobInHand

  // Deinit hooks: DeinitHookModelTests
  /// A hook that has been taken to run can still be cancelled.
  case hookIsCancelledWhileItRuns
  /// Two attachments are made for one object.
  case attachmentIsMadeTwice
  /// A hook that another of its name replaces stays.
  case formerHookStays

  // Queues: QueueModelTests
  /// A job that has been claimed runs without a look at the lifetime.
  case jobSkipsTheLifetime  // aJobAndTheEndOfItsOwner
  /// A job of an object that shares its token runs without a look at the lifetime.
  case sharedJobSkipsTheLifetime  // aJobOfAnObjectThatSharesItsTokenAndTheEnd
  /// A thread that has seen that no worker is due parks without another look under the lock.
  case parksWithoutLooking
  /// A thread that takes a worker leaves those that are due, too, to whoever comes by.
  case callsNobodyForTheRest  // aJobWaitsForAJobOfAnotherQueue
  /// A worker leaves after the hold of the lock in which it found nothing.
  case leavesInASecondHold  // aHandedJobGivesWayToAMoreUrgentOneOfItsOwner
  /// Somebody waits for work that may be over already.
  case waiterMissesTheFinish  // aHandedJobGivesWayToAMoreUrgentOneOfItsOwner
  /// A work item can be begun, and reclaimed, at once.
  case beginsWithoutExchange
  /// A parked thread gives up without looking whether it has been called.
  case givesUpThoughCalled  // aJobIsAddedWhileTheParkedThreadGivesUp
  /// The monitor takes a worker without a work item for one that is in a body.
  case monitorLooksAtItemsOnly  // whatAJobThatWasHeldBackLeavesBlocksItsWorker
  /// A job that was handed to a worker doesn't give way to a more urgent one of its owner.
  case handoverDoesNotYield  // aHandedJobGivesWayToAMoreUrgentOneOfItsOwner
  /// An operation is added though another queue has it.
  case isAddedTwice  // oneOperationIsAddedToTwoQueues

  // Barriers: BarrierModelTests
  /// A barrier begins while what was before it executes.
  case barrierOvertakes  // aBarrierComesAfterWhatWasBeforeIt
  /// Two workers take barriers of one phase.
  case barriersOverlap  // barriersInARowRunOneAtATime
  /// A barrier that a worker gives back waits for the one behind it.
  case givenBackBarrierIsHeldUp  // barriersBeforeThatOfASuspendedOwnerAreGivenBack
  /// A barrier whose owner is suspended steps aside.
  case heldBarrierIsOvertaken  // aSuspendedOwnersBarrierHoldsUpTheNext

  // Work that is over while what it has captured still goes: EndWatchModelTests
  /// Nobody but the worker counts it.
  case endIsLeftToItsWorker
  /// A body takes longer than until the first look.
  case endsAreLookedForOnce

  // Operations in a queue that are not ready: QueueReadinessModelTests
  /// An operation becomes ready again while its item is used up, and gets no other.
  case itemIsUsedUpWithTheNews
  /// A work item of a former priority leads to no start, though there is none of the new one.
  case priorityLosesTheItem
  /// An operation becomes ready again while it is held back, and gets no item.
  case heldBackMissesTheNews  // aDependencyIsAddedWhileTheWorkerAsks
  /// The timer of watched operations is set once.
  case readinessIsAskedOnce  // aConditionComesTrueWhileTheWorkerAsks

  // Settings of a queue: QueueSettingModelTests
  /// A worker that was made for other settings goes on taking work.
  case formerWorkersGoOn  // whatIsAddedAfterTheUnderlyingQueueWasSetRunsThere
  /// A setting that needs an empty queue doesn't look what is over and not counted.
  case settingForgetsWhatIsOver  // theQueueOfARunThatIsOverGetsAnotherUnderlyingQueue
  /// What a worker has in hand stays with it, whatever is cancelled, suspended or limited.
  case workInHandStays  // aBatchInHandIsCancelled
  /// What several workers give back comes in the order in which they took it, each before the one that took earlier.
  case batchesComeBackReversed  // twoBatchesComeBackInTheirOrder
  /// A queue that is idle again while it is tidied up is not tidied up again.
  case idleQueueIsTidiedOnce  // aQueueThatIsIdleAgainIsTidiedUpAgain
  /// An owner that is suspended goes on when the idle queue has forgotten it and it comes back.
  case suspensionIsForgotten  // anIdleQueueIsTidiedWhileAnOwnerIsSuspended

  // Owners that take turns: QueueFairnessModelTests
  /// Where owners take turns, a worker takes several of the only one there is.
  case turnsAreTakenInAdvance  // anOwnerThatIsAloneGetsCompany
  /// Where owners take turns, one whose work is used up counts as waiting for its turn.
  case usedUpFlowKeepsItsTurn  // anOwnerThatIsAloneGetsCompany

  // Queues that go, and owners that end: QueueEndModelTests
  /// What an owner had pending stays in the queue after its end until its turn comes.
  case workStaysAfterTheEnd  // whatIsSuspendedIsReleasedAtTheEnd
  /// Of owners that have ended, and of whose work a queue hears at once, all but the first are forgotten.
  case laterEndsAreForgotten  // ownersThatEndTogetherAreToldTogether
  /// Members that were at rest when their owner ended are never told.
  case restingMembersAreForgotten  // whatIsAddedWhileAnOwnerEndsAtRestIsReleased
  /// An owner that gets work counts as one at rest until that is over.
  case workDoesNotEndTheRest  // whatWasAddedBeforeTheEndIsReleasedAtOnce
  /// Who waits for the end of a drain looks, outside of the lock, whether it is over.
  case drainLooksTooEarly  // anOwnerIsDrainedOrItsTimeIsUp
  /// A thread keeps the queue of the worker that it has run last, until it runs another or gives up parking.
  case parkedThreadKeepsItsQueue  // theQueueGoesWhileTheParkedThreadGivesUp
  /// A thread on which a queue goes counts as looking for work meanwhile.
  case looksWhileTheQueueGoes  // theErrorHandlerOfAQueueBlocksTheWorkersThread
  /// The heir of a queue can be found before it has what the queue leaves.
  case heirIsKnownTooEarly  // theQueueGoesWhileItsFacadeIsUsed
  /// Who comes for a queue that has gone doesn't wait for its heir.
  case heirIsNotWaitedFor  // anOwnerEndsWhileItsWorkGoesToTheHeir

  // Owners whose ends are told at once: EndAtOnceModelTests
  /// Who ends an owner deals with its job in a queue that has left it to its heir.
  case endAtOnceMissesTheHeir  // theQueueLeavesTheJobToItsHeir
  /// Who ends an owner takes its job out though somebody waits for that.
  case endAtOnceWakesNobody  // somebodyWaitsForIt
  /// Who ends an owner takes its job out though a barrier waits for that.
  case endAtOnceLeavesTheBarrier  // aBarrierWaitsForIt

  // Jobs that a worker's own jobs add: NestedWorkModelTests
  /// A worker adds to a list that has been closed, and begins what is in it.
  case closedListGoesOn  // whoWaitsForTheQueueWaitsForWhatItsJobsAdd
  /// Whoever reclaims what a worker has in hand leaves it what its jobs have added.
  case listStaysOpen  // aBarrierComesBetweenWhatAJobAddsBeforeItAndAfterIt
  /// What a worker has kept is counted when somebody else looks, and not before it is counted as over.
  case nestedWorkIsCountedLate  // whoWaitsForAChainWaitsForItsLastJob
  /// A worker doesn't say that it has kept something.
  case nestedWorkIsNotNoted  // whatOthersAddKeepsItsPlace
  /// A worker begins what it has kept before older work.
  case nestedWorkOvertakes  // whatOthersAddKeepsItsPlace
  /// Workers keep what bodies add for an owner whose older work is held back.
  case heldBackLeavesListsOpen  // nothingIsKeptBehindWhatIsHeldBack
  /// A worker keeps more after what it has kept was taken in, before the hint says so.
  case takenListGoesOn  // whatAJobAddsKeepsItsOrder
  /// A list that was to be opened again is opened though something was decided meanwhile that closes it.
  case closedListIsReopened  // aBarrierComesBetweenWhatAJobAddsBeforeItAndAfterIt
  /// What a job has added to a deep list goes behind what is left of its siblings.
  case deepListIsFlat  // whatAJobAddsComesBeforeItsYoungerSiblings
  /// Who takes in a deep list forgets what is around its innermost group.
  case outerGroupsAreForgotten  // aDeepListIsTakenInWhole
  /// A worker that leaves to others what they have kept takes back that there is some.
  case leftWorkIsForgotten  // whatAWorkerLeavesToAnotherIsCounted
  /// The monitor doesn't know of what a worker has kept.
  case nestedWorkIsNotMonitored  // aBodyBlocksUntilWhatItHasAddedHasRun

  // Code of the user's that comes back, or blocks: UserCodeModelTests
  /// What is taken out of a queue is released under its lock.
  case capturesGoUnderTheLock  // whatWasCancelledAddsAnotherJobWhenItGoes
  /// What is taken out of a queue is released by whoever has taken it out, one after the other.
  case capturesGoWhereTheyAreTakenOut  // whatTwoJobsHaveCapturedWaitsForTheOthers
  /// What the nodes of a graph captured is released by whoever cancels the last of them.
  case capturesOfNodesGoWithTheCanceller  // whatTheNodesOfTwoGraphsHaveCapturedWaitsForTheOthers
  /// A job is over when its captures have gone.
  case capturesGoInTheBody  // whatAJobHasCapturedBlocksUntilTheNextHasRun
  /// Hooks run under the lifetime's lock.
  case hooksRunUnderTheLock  // aHookWaitsForTheQueueInsideOfABody
  /// A completion block runs on the thread that finishes the operation.
  case completionBlockRunsWhereItIsDue  // completionBlocksWaitForWhatIsCancelledWithTheirOwn
  /// A completion block that comes while the finish is under way runs, and so does the one before it.
  case completionBlockRunsBesideTheFormer  // aCompletionBlockIsReplacedWhileTheOperationFinishes
  /// A finish forgets that a completion block has come and run while it was under way: another one runs, too.
  case lateCompletionBlockIsForgotten  // aCompletionBlockIsReplacedWhileTheOperationIsCancelled
  /// `didCancel` is called under the operation's lock.
  case didCancelRunsUnderTheLock  // whoIsToldOfACancellationAddsAndWaits

  // Lines: LineModelTests
  /// The next of a line begins while one of it runs.
  case lineRunsSideBySide  // deliveriesRunOneAtATimeAndInOrder
  /// What was held behind a line's last is not looked at again.
  case lineIsNotReleased  // deliveriesRunOneAtATimeAndInOrder
  /// What was held comes back before all else.
  case heldTurnLosesItsAge  // whatIsHeldBehindALineKeepsItsPlace
  /// A worker takes more behind one of a line.
  case batchGoesOnBehindALine  // aWorkerThatTakesSeveralKeepsTheOrder
  /// One of a line that waits keeps the line.
  case waitKeepsTheLine  // aDeliveryWaitsForTheQueue

  // Permits: PermitModelTests
  /// A body that waits for work of its own queue keeps its permit.
  case keepsPermitInWait  // aBodyWaitsForWorkOfItsOwnSerialQueue
  /// A body that waits for anything else than work of its own queue gives its permit up, too.
  case everyWaitYields  // aBodyWaitsForWorkOfAnotherQueue
  /// An asynchronous operation that goes on without its worker has no permit.
  case detachedTakesNoPermit  // whatIsTakenTogetherWithAnAsynchronousOperationWaitsForIt
  /// A worker keeps its permit in the start of an asynchronous operation that somebody else has finished.
  case finishedStartKeepsItsPermit  // anOperationIsFinishedWhileItsStartGoesOn
  /// A worker goes on with what it has taken beside an asynchronous operation that goes on without it.
  case batchGoesOnBesideADetached  // whatIsTakenTogetherWithAnAsynchronousOperationWaitsForIt
  /// A body whose wait is over goes on though its owner has as many running as may.
  case returnsPastTheOwnersLimit  // aBodyWaitsForWorkOfItsOwnOwner
  /// A body whose wait is over goes on though others have its permit.
  case returnsWithoutPermit
  /// Nobody looks for bodies that want their permits back.
  case forgetsWhoReturns
  /// A body whose wait is over waits for workers that are on their way, too.
  case returnsBehindArriving
  /// A wait of a task yields the permit each time that somebody looks.
  case taskYieldsTwice
  /// The scheduler hears of a wait of a task after the lock, and perhaps after its end.
  case taskYieldsAfterItsWait
  /// The timer of tasks that wait is set once.
  case waitsAreLookedAtOnce  // aTaskLooksAgainAtWhatItWaitsFor
  /// The task of an operation that has been cancelled waits for a permit.
  case cancelledTaskNeedsAPermit

  // Results and their handlers: ResultHandlerModelTests
  /// The first result is not the only one that a handler gets.
  case handlerIsHandedOverTwice  // theWorkIsCancelledWhileItStarts
  /// A cancellation calls the handler though the work is under way.
  case handlerComesBeforeTheWorkIsOver  // theWorkIsCancelledWhileItStarts
  /// A cancellation that finds the work not begun leaves it to the start, which may begin it before the handler is called.
  case cancelLeavesTheWork  // theWorkIsCancelledWhileItStarts
  /// The end of the owner leaves the handler with work that nobody starts.
  case handlerOutlivesTheEnd  // theHandlerGoesWithItsOwner

  // Turns: QueueTurnModelTests
  /// A turn whose owner ends between its start and its coming is not told.
  case turnMissesItsLateCancellation  // aTurnAndTheEndOfItsOwner
  /// The task of an operation begins its body without another look.
  case taskSkipsTheLifetime
  /// A turn that comes at once is not counted among those who have permits.
  case turnTakesNoPermit

  // Graphs: GraphModelTests
  /// A node that is in hand runs without a look at its lifetimes.
  case nodeSkipsTheLifetime
  /// A worker and a canceller both have one node in hand.
  case nodeIsClaimedTwice
  /// A node becomes ready, and is listed, though its run has been cancelled.
  case cancelledNodeIsListed  // aRunBeginsWhileItsOwnerEnds
  /// Two predecessors that finish at once count as one.
  case predecessorIsMiscounted
  /// Somebody waits without looking, under the lock, whether the run has finished.
  case graphWaiterLooksTooEarly

  // Observers of notifications: ObserverModelTests
  /// A handler begins without a look at its owner's lifetime.
  case handlerSkipsTheLifetime
  /// An observation that an ended owner doesn't let join stays.
  case observationMissesTheEnd
  /// Where all names are observed, too, two registrations call those of a name.
  case postIsHeardTwice

  // Turns of requests at a host: TurnModelTests
  /// Who leaves the line gives back a turn that it never had.
  case leaverGivesATurnBack
  /// Who has left the line gets a turn.
  case leaverGetsATurn

  // Transfers that several askers share: CoalescingModelTests
  /// Somebody joins a transfer that is over.
  case joinsWhatIsOver
  /// A transfer whose last asker left while its task was made has it begin.
  case taskMissesTheLastLeave

  // Requests in each of their states: RequestModelTests
  /// A request that is over begins, because its run was made meanwhile.
  case runMissesTheEnd
  /// A run that was stopped while it got its place in a transfer stays there.
  case placeMissesTheEnd
  /// When the time until the next attempt is up, that begins, whether the run is over or not.
  case beginsWhenOver  // theOwnerEndsWhenTheTimeUntilTheNextAttemptIsUp

  // Protected state: ProtectedModelTests
  /// A reader counts itself in, and doesn't look for writers.
  case readerOverlooksTheWriter
  /// A reader says that it waits after it has looked what for.
  case writerOverlooksTheTicket
  /// A writer says that it sleeps after it has looked whether it has to.
  case writerSleepsUnseen
  /// Of two who make an object that is made when it is needed each has its own.
  case lazyObjectIsMadeTwice  // anObjectIsMadeOnce

  // Where a queue finds what it knows of an owner: PlaceModelTests
  /// Who has seen that a place is nobody's takes it, whoever was quicker.
  case placeIsTakenFromAnother

  // What a queue knew of an owner becomes another's: QueueEndModelTests
  /// It is over for the other, too.
  case spareHasEnded

  // Operations on their way back to who adds others: TrayModelTests
  /// Who finds an object in a tray takes it, and then says that it is not there any more.
  case trayGivesTwice
  /// When the timer goes off, it says that it isn't set any more after it has taken what there is.
  case trayForgetsItsTimer

  #if OWNED_OPERATIONS_MODEL
    private static let active = ProcessInfo.processInfo.environment["MODEL_MUTATION"].flatMap(Mutation.init)
    var isOn: Bool { Self.active == self }
  #else
    @inline(__always)
    var isOn: Bool { false }
  #endif
}
