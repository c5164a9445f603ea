import Foundation

/// What comes to a run on a cluster from other threads.
enum SlurmEvent: Sendable {
  /// Of a submission; nil: its owner ended before `sbatch` was called.
  case submitted(Int, SlurmPrograms.Answer?)
  /// Of the poll with that number.
  case polled(Int, SlurmPrograms.Answer)
  /// Of `scancel`, for these jobs.
  case cancelled([String], SlurmPrograms.Answer)
  case ownerEnded(Int, RunFile.EndCondition)
  /// How many signals there have been.
  case interrupted(Int)
  case leaseLost
}

/// Events for one thread, in the order of their coming.
final class SlurmMailbox: Sendable {
  private let events = Guarded<[SlurmEvent]>([])
  private let hasEvents = DispatchSemaphore(value: 0)

  func post(_ event: SlurmEvent) {
    let isFirst = events.withLock { events in
      events.append(event)
      return events.count == 1
    }
    if isFirst { hasEvents.signal() }
  }

  /// Blocks until there are some, or so many seconds have passed.
  func take(within seconds: Double) -> [SlurmEvent] {
    _ = hasEvents.wait(timeout: .now() + max(0, seconds))
    return events.withLock { events in
      defer { events = [] }
      return events
    }
  }
}

/// Tells what becomes of a submission, also when its owner ends before its turn: then it is released without having been begun.
final class SlurmTicket: Sendable {
  private let submission: Int
  private let mailbox: SlurmMailbox
  private let hasBegun = Guarded(false)

  init(_ submission: Int, _ mailbox: SlurmMailbox) {
    self.submission = submission
    self.mailbox = mailbox
  }

  func run(_ words: [String], _ call: SlurmPrograms.Call) {
    hasBegun.withLock { $0 = true }
    mailbox.post(.submitted(submission, call(words)))
  }

  deinit { if !hasBegun.withLock({ $0 }) { mailbox.post(.submitted(submission, nil)) } }
}
