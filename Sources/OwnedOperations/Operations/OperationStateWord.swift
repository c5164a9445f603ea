import Foundation

/// The state of an operation, in one 64-bit word.
///
/// ## Protocol
///
/// Every operation has one such word, atomic. All flags that a reader may ask for are views of a single load, so they never contradict
/// each other. Every change that matters is a compare-and-exchange (acquiring and releasing) in `OwnedOperation.update`. Single bits that
/// nothing is decided by (`readinessWasRead`, `foundationWasTold`) are set with an atomic or. So is `givenOut`, whose order is that of the
/// scheduler's lock.
///
///     pending ──start──▶ executing ──finish──▶ finished
///        └─────────────cancelled, never started───▲
///
/// **Start.** A thread that turns pending and not cancelled into executing owns the start. Only then does it load the lifetime (acquiring):
/// that load decides whether the work runs. If it reads "ended", the operation is cancelled and finishes without running.
///
/// **Cancellation.** `cancelled` and its reason are set together, once, and never cleared. The end of the owner touches no operation:
/// whoever looks at an unfinished operation whose lifetime has ended sets the bit first ("helps"). So the word alone is the truth, and an
/// answer "cancelled" is never taken back. `cancelClaimed` is turned by exactly one thread, the handler of the cancellation. It releases
/// the work if that never started, then sets `workReleased`, tells observers, cancels dependents that require success, and calls
/// `didCancel`. Getters that help set the bit only. For the end of an owner the handler is the reaper, unless a start or finish gets there
/// first.
///
/// **Finish.** `finishClaimed` is turned by exactly one thread, which releases the work and then turns the phase. A thread that has work to
/// finish may claim
/// - while executing, at any time;
/// - while pending, only when `cancelled` and `workReleased` are set. `attached` or `wantsFinish` make the handler claim it as soon as it
///   has released the work. Who comes later (a start, the reaper) sets `wantsFinish`. If the work has been released, it claims; otherwise
///   it leaves that to the handler.
/// The exchange that turns the phase to finished sets `cancelled` too if the owner has ended by then. `cancelled` and `failed` as
/// they stand in that exchange are the outcome.
///
/// **Dependencies.** The upper half counts dependencies that have not finished. It is only of interest while the operation is pending and
/// not cancelled. `requiresSuccess` and the decrement for a failed dependency meet in the same word. If the decrement sees the policy, it
/// cancels in the same exchange. Otherwise the setter of the policy comes later and sees the failed dependency.
///
/// **Observers.** Once `isObserved` is set, every exchange is made and recorded under the operation's lock. So changes are delivered in the
/// order in which they happened. An exchange that expects a word without the bit fails if it has been set meanwhile.
///
/// Plain fields of the operation (`extras`, `scheduler`, dependents, the work) are guarded by its lock.
struct StateWord: Equatable {
  struct Bits: OptionSet {
    let rawValue: UInt64

    static let wasStarted = Bits(rawValue: 1 << 2)
    static let cancelled = Bits(rawValue: 1 << 3)
    static let cancelClaimed = Bits(rawValue: 1 << 6)
    static let workReleased = Bits(rawValue: 1 << 7)
    static let wantsFinish = Bits(rawValue: 1 << 8)
    static let finishClaimed = Bits(rawValue: 1 << 9)
    /// In a queue of ours.
    static let attached = Bits(rawValue: 1 << 10)
    /// The scheduler knows that the operation is ready.
    static let announced = Bits(rawValue: 1 << 11)
    /// Somebody may have remembered an answer of `isReady`: a Foundation queue does.
    static let readinessWasRead = Bits(rawValue: 1 << 12)
    static let isObserved = Bits(rawValue: 1 << 13)
    static let isObservedBeforehand = Bits(rawValue: 1 << 14)
    static let requiresSuccess = Bits(rawValue: 1 << 15)
    static let foundationWasTold = Bits(rawValue: 1 << 16)
    static let failed = Bits(rawValue: 1 << 17)
    /// The work began: the owner was alive when it was looked at.
    static let ran = Bits(rawValue: 1 << 18)
    /// The scheduler has claimed the start: dependencies that are added from now on come too late.
    static let startClaimed = Bits(rawValue: 1 << 26)
    /// Its own `isReady` holds it back, and the scheduler asks from time to time.
    static let watched = Bits(rawValue: 1 << 27)
    /// A scheduler has refused it because its owner had ended: Foundation hears of its finish, though nobody starts it.
    static let refused = Bits(rawValue: 1 << 28)
    /// A scheduler has given it to code of the user's, which it says under its lock.
    static let givenOut = Bits(rawValue: 1 << 30)
    /// See `setTellsOthers`. Never changes.
    static let tellsOthers = Bits(rawValue: 1 << 29)
  }

  enum Phase: UInt64 {
    case pending = 0
    case executing = 1
    case finished = 2
  }

  /// What the word keeps of a ``CancellationReason``; names and durations are kept beside it.
  enum Reason: UInt64 {
    case requested = 0
    case ownerEnded = 1
    case dependencyFailed = 2
    case timedOut = 3
  }

  private static let phaseMask: UInt64 = 3
  private static let reasonShift: UInt64 = 4
  private static let priorityShift: UInt64 = 20
  private static let qualityShift: UInt64 = 23
  private static let codeMask: UInt64 = 7
  private static let countShift: UInt64 = 32

  var rawValue: UInt64

  init(rawValue: UInt64) { self.rawValue = rawValue }

  /// Pending, ready, of normal priority, without a quality of service.
  static let initial = StateWord(rawValue: 0)

  var phase: Phase {
    get { rawValue & 1 != 0 ? .executing : rawValue & 2 != 0 ? .finished : .pending }
    set { rawValue = rawValue & ~Self.phaseMask | newValue.rawValue }
  }

  func contains(_ bits: Bits) -> Bool { rawValue & bits.rawValue == bits.rawValue }
  func containsAny(_ bits: Bits) -> Bool { rawValue & bits.rawValue != 0 }
  mutating func insert(_ bits: Bits) { rawValue |= bits.rawValue }
  mutating func remove(_ bits: Bits) { rawValue &= ~bits.rawValue }

  var isFinished: Bool { phase == .finished }
  var isCancelled: Bool { contains(.cancelled) }

  var reason: Reason { Reason(rawValue: rawValue >> Self.reasonShift & 3) ?? .requested }

  mutating func cancel(_ reason: Reason) {
    insert(.cancelled)
    rawValue |= reason.rawValue << Self.reasonShift
  }

  var unfinishedDependencyCount: UInt64 {
    get { rawValue >> Self.countShift }
    set { rawValue = rawValue & (1 << Self.countShift - 1) | newValue << Self.countShift }
  }

  /// Nothing of the operation's own holds it back. A cancelled operation is ready, so that a queue gets it out of the way.
  var isReady: Bool { phase != .pending || isCancelled || unfinishedDependencyCount == 0 }

  var state: OperationState {
    switch phase {
    case .pending: isReady ? .ready : .pending
    case .executing: .executing
    case .finished: .finished
    }
  }

  var priority: Operation.QueuePriority {
    get {
      switch rawValue >> Self.priorityShift & Self.codeMask {
      case 1: .veryLow
      case 2: .low
      case 3: .high
      case 4: .veryHigh
      default: .normal
      }
    }
    set {
      let code: UInt64 =
        switch newValue {
        case .veryLow: 1
        case .low: 2
        case .high: 3
        case .veryHigh: 4
        default: 0
        }
      rawValue = rawValue & ~(Self.codeMask << Self.priorityShift) | code << Self.priorityShift
    }
  }

  /// Nil until somebody has set it.
  var qualityOfService: QualityOfService? {
    get {
      switch rawValue >> Self.qualityShift & Self.codeMask {
      case 1: .background
      case 2: .utility
      case 3: .default
      case 4: .userInitiated
      case 5: .userInteractive
      default: nil
      }
    }
    set {
      let code: UInt64 =
        switch newValue {
        case .background: 1
        case .utility: 2
        case .default: 3
        case .userInitiated: 4
        case .userInteractive: 5
        default: 0
        }
      rawValue = rawValue & ~(Self.codeMask << Self.qualityShift) | code << Self.qualityShift
    }
  }
}

/// One exchange of the word that took place.
struct StateChange {
  let old: StateWord
  let new: StateWord

  /// Whether this exchange, and no other, set the bits.
  func turned(_ bits: StateWord.Bits) -> Bool { new.contains(bits) && !old.contains(bits) }

  var altersReadiness: Bool { new.phase == .pending && !new.isCancelled && old.isReady != new.isReady }
}
