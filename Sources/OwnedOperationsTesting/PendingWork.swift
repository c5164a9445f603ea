import OwnedOperations

/// Work that has not finished, and why.
public struct PendingWork: Hashable, Sendable, CustomStringConvertible {
  /// What the work is.
  public enum Kind: Hashable, Sendable {
    /// A closure: of `async`, `asyncAfter`, or a delivery.
    case job
    /// An operation.
    case operation
    /// A node of a graph.
    case graphNode
    /// A barrier without an owner.
    case barrier
    /// A task: one with its turn in a queue, or one that prefers the time or a queue as its executor.
    case task
  }

  /// What the work waits for.
  public enum Reason: Hashable, Sendable {
    /// Nothing: it may run.
    case ready
    /// The clock to be moved that far: a delayed job, or a task that sleeps.
    case delayed(until: VirtualTime.Instant)
    /// Its queue is suspended.
    case queueSuspended
    /// Its owner is suspended in the queue.
    case ownerSuspended
    /// Nothing but running bodies of its own holds its owner.
    case ownerHeldBack
    /// As many execute as the limit of the queue, or of the owner, allows.
    case limit
    /// It comes behind a barrier; or is one, and waits for what came before.
    case barrier
    /// Operations with these names; or other nodes of its graph, which aren't named.
    case dependencies([String])
    /// Its own `isReady` says no.
    case notReady
    /// It has begun, and waits for other work.
    case otherWork
    /// It has begun, and goes on, if it does, by another clock, another actor or another thread.
    case suspendedElsewhere
  }

  /// What the work is.
  public let kind: Kind
  /// What it is called, if it is an operation.
  public let name: String?
  /// The name of its owner's lifetime, in quotes, or its identifier; nil if it has none.
  public let owner: String?
  /// The name of its queue; nil for a task without one.
  public let queue: String?
  /// What it waits for.
  public let reason: Reason

  init(_ kind: Kind, name: String? = nil, owner: String?, queue: String?, _ reason: Reason) {
    (self.kind, self.name, self.owner, self.queue, self.reason) = (kind, name, owner, queue, reason)
  }

  /// - Parameters:
  ///   - ready: operations whose tasks have a step to take.
  ///   - sleeping: operations whose tasks sleep, and until when.
  init(
    _ entry: QueueBacklog.Entry, in queue: String, ready: Set<ObjectIdentifier>, sleeping: [ObjectIdentifier: VirtualTime.Instant]
  ) {
    let (kind, name): (Kind, String?) =
      switch entry.kind {
      case .job: (.job, nil)
      case .graphNode: (.graphNode, nil)
      case .taskStep, .turn: (.task, nil)
      case .barrier: (.barrier, nil)
      case .operation(let label, _): (.operation, label)
      }
    let operation = entry.kind.operation
    let reason: Reason =
      switch entry.reason {
      case .ready: .ready
      case .queueSuspended: .queueSuspended
      case .ownerSuspended: .ownerSuspended
      case .ownerHeldBack: .ownerHeldBack
      case .limit: .limit
      case .barrier: .barrier
      case .notReady: .notReady
      case .dependencies(let names): .dependencies(names)
      case .executes(let waits):
        if let operation, ready.contains(operation) {
          .ready
        } else if let operation, let time = sleeping[operation] {
          .delayed(until: time)
        } else {
          waits ? .otherWork : .suspendedElsewhere
        }
      }
    self.init(kind, name: name, owner: entry.owner.map { $0.name.map { "\"\($0)\"" } ?? "\($0.id)" }, queue: queue, reason)
  }

  /// For example `job of "screen" in "decoding": delayed until +5.0 seconds`.
  public var description: String {
    var text = name ?? "\(kind)"
    if let owner { text += " of \(owner)" }
    if let queue { text += " in \"\(queue)\"" }
    return "\(text): \(reason)"
  }
}

extension PendingWork.Kind: CustomStringConvertible {
  /// In words.
  public var description: String {
    switch self {
    case .job: "job"
    case .operation: "operation"
    case .graphNode: "node of a graph"
    case .barrier: "barrier"
    case .task: "task"
    }
  }
}

extension PendingWork.Reason: CustomStringConvertible {
  /// In words.
  public var description: String {
    switch self {
    case .ready: "ready"
    case .delayed(let time): "delayed until \(time)"
    case .queueSuspended: "its queue is suspended"
    case .ownerSuspended: "its owner is suspended"
    case .ownerHeldBack: "nothing but its own work holds its owner"
    case .limit: "as many execute as the limit allows"
    case .barrier: "there is a barrier"
    case .dependencies(let names): names.isEmpty ? "waits for other nodes" : "waits for \(names.joined(separator: ", "))"
    case .notReady: "says that it isn't ready"
    case .otherWork: "waits for other work"
    case .suspendedElsewhere: "suspended elsewhere"
    }
  }
}

extension VirtualTime {
  /// What has become of running work.
  public struct Outcome: Sendable, CustomStringConvertible {
    /// How many pieces of work, and steps of tasks, have run.
    public let steps: Int
    /// Whether nothing may run any more, at the time that it is now. If not, the limit of steps was met.
    public let isIdle: Bool
    /// If the limit was met: what has run last, the most frequent first. Work that adds itself again and again is among it.
    public let rearming: [String]
    /// What has begun, and waits for something that isn't this time's to run: another clock, another actor, another thread.
    public let suspendedElsewhere: [PendingWork]

    /// In words.
    public var description: String {
      guard isIdle else { return "after \(steps) steps there is still work; it was last: \(rearming.prefix(5).joined(separator: ", "))" }
      guard !suspendedElsewhere.isEmpty else { return "idle after \(steps) steps" }
      return "idle after \(steps) steps, but for \(suspendedElsewhere.map(\.description).joined(separator: "; "))"
    }
  }
}
