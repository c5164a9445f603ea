/// Stands in for the threads and the clock of queues, in users' tests. Their work runs when somebody asks for it, at a time that somebody
/// says. See the product `OwnedOperationsTesting`.
///
/// The scheduler is the one of every queue. What changes hands:
/// - a worker that is due, and a step of a task, goes to `add` instead of GCD;
/// - what is due later goes to `call` instead of a timer;
/// - a thread that waits goes to `drive` instead of a semaphore;
/// - operations that nobody announces are asked by the driver, instead of a timer.
package protocol QueueDriver: AnyObject, Sendable {
  /// The step is due. Any thread, also under a queue's lock.
  func add(_ step: DrivenStep)

  /// The call is due when the delay has passed. Any thread, outside locks.
  func add(_ call: DrivenCall, after delay: Duration)

  /// Runs steps on this thread until the wait is over. If nothing that might end it can run any more, says so and returns.
  /// - Parameters:
  ///   - isOver: asked before each step.
  ///   - wait: what is waited for.
  func drive(until isOver: () -> Bool, for wait: @autoclosure () -> String)

  /// Which of so many pieces of work that may begin begins. May be called under a queue's lock.
  func choose(among count: Int) -> Int
}

/// What a driver is to run once, on a thread of its choice.
package struct DrivenStep: Sendable {
  package enum Outcome: Sendable {
    /// There was nothing to do any more.
    case nothing
    /// With its name, if that was asked for.
    case ran(String?)
  }

  /// Steps of queues whose order is the driver's choice may change places with each other.
  package let isShuffled: Bool
  /// The operation whose task's step it is.
  package let operation: ObjectIdentifier?
  private let body: @Sendable (_ isNamed: Bool) -> Outcome

  package init(isShuffled: Bool, operation: ObjectIdentifier? = nil, _ body: @escaping @Sendable (_ isNamed: Bool) -> Outcome) {
    self.isShuffled = isShuffled
    self.operation = operation
    self.body = body
  }

  /// As if on a thread of its own: what this thread is inside of is none of the step's business.
  package func run(isNamed: Bool) -> Outcome { ThreadSlot.withNone { body(isNamed) } }
}

/// Something that is due at a time, unless it isn't wanted any more.
package final class DrivenCall: Sendable {
  package enum Kind: Sendable, Equatable {
    /// Adds a job to a queue.
    case job(queue: String, owner: String)
    /// Ends something that has taken too long.
    case timeout
    /// A task goes on; that of an operation, if there is one.
    case wake(operation: ObjectIdentifier?)
  }

  package let kind: Kind
  private let isNeeded: @Sendable () -> Bool
  private struct State {
    var body: (@Sendable () -> Void)?
    var keepsake: AnyObject?
  }

  private let state: Locked<State>

  /// - Parameter isNeeded: asked now and then; what is not needed is never called, and released.
  package init(_ kind: Kind, while isNeeded: @escaping @Sendable () -> Bool, _ body: @escaping @Sendable () -> Void) {
    self.kind = kind
    self.isNeeded = isNeeded
    state = Locked(State(body: body))
  }

  /// Kept until the call has been made or cancelled.
  func keep(_ object: AnyObject) { state.withLock { $0.keepsake = object } }

  package var isPending: Bool {
    guard state.withLock({ $0.body != nil }) else { return false }
    if isNeeded() { return true }
    cancel()
    return false
  }

  package func perform() {
    guard isPending, let body = take() else { return }
    body()
  }

  /// What it captured is released in the background.
  package func cancel() {
    if let body = take() { DeferredReleases.add(consume body) }
  }

  private func take() -> (@Sendable () -> Void)? {
    let (body, kept) = state.withLock { ($0.body.take(), $0.keepsake.take()) }
    return withExtendedLifetime(kept) { body }
  }
}

extension ThreadSlot {
  private static let all: [ThreadSlot] = [
    .worker, .queue, .blockingObserver, .operation, .ownerBody, .hookRun, .chainRelease, .taskStep,
    .priorCall,
  ]

  /// Runs the body with nothing in any slot.
  static func withNone<Result>(_ body: () -> Result) -> Result {
    let outer = all.map { slot in
      defer { slot.pointer = nil }
      return slot.pointer
    }
    defer { for (slot, pointer) in zip(all, outer) { slot.pointer = pointer } }
    return body()
  }
}
