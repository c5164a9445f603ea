import Foundation
import OwnedOperations

/// A command of the graph: executing while its processes are there. When it is cancelled, they are asked to end, and after the grace made to.
final class JobOperation: OwnedAsyncOperation, @unchecked Sendable {  // what changes is in `course`
  /// What has become of the job; more than the outcome, which is cancelled as soon as it is, tells.
  enum Result: Equatable, Sendable {
    case succeeded
    case failed(String)
    case cancelled(String)
  }

  private struct Course {
    var group: pid_t?
    var isStopping = false
    var result: Result?
    var wasRefused = false
    /// On the recorder's clock, if there is one.
    var cancellationTime: Double?
  }

  let job: RunFile.Job
  let place: Int
  private let session: RunSession
  private let course = Guarded(Course())

  init(_ job: RunFile.Job, place: Int, lifetime: OwnerLifetime, session: RunSession) {
    self.job = job
    self.place = place
    self.session = session
    super.init(lifetime: lifetime)
    name = job.name
    if job.priority != .normal { queuePriority = job.priority }
    if let timeout = job.timeout { self.timeout = timeout }
    if !job.after.isEmpty { dependencyPolicy = .requireSuccess }
  }

  /// Nil until the job has been run.
  var result: Result? { course.withLock { $0.result } }

  /// Whether it never began, though its turn came.
  var wasRefused: Bool { course.withLock { $0.wasRefused } }

  var cancellationTime: Double? { course.withLock { $0.cancellationTime } }

  override func run() async throws {
    defer { session.didEnd(self) }
    if let reason = session.reasonNotToStart {
      course.withLock { course in
        course.result = .cancelled(reason)
        course.wasRefused = true
        course.cancellationTime = session.recorder?.now
      }
      throw CancellationError()
    }
    let start = ContinuousClock.now
    let mark = session.recorder?.begin()
    let output = TemporaryFile.open()
    var result = output >= 0 ? Result.cancelled("") : .failed("can't create a file for its output: \(RawFile.message(errno))")
    if output >= 0 {
      defer { close(output) }
      var attempt = 0
      repeat {
        result = await attemptOnce(output)
        attempt += 1
      } while attempt <= job.retries && isFailure(result) && !course.withLock({ $0.isStopping })
      if attempt > 1, case .failed(let reason) = result { result = .failed("\(reason), \(attempt) attempts") }
      session.show(self, result, seconds: (ContinuousClock.now - start).inSeconds, output: output)
    } else {
      session.show(self, result, seconds: 0, output: nil)
    }
    course.withLock { $0.result = result }
    if let mark { session.recorder?.end(mark, name: job.name, owner: session.ownerName(of: job), outcome: result.recorded) }
    switch result {
    case .succeeded: break
    case .failed(let reason):
      session.jobFailed(self)
      throw UsageError(reason)
    case .cancelled: throw CancellationError()
    }
  }

  private func isFailure(_ result: Result) -> Bool {
    if case .failed = result { true } else { false }
  }

  private func attemptOnce(_ output: Int32) async -> Result {
    // Cancelled before there is a process: the reason is known, and nobody needs to be killed.
    if course.withLock({ $0.isStopping }) { return stoppedResult }
    let reaper = ChildReaper.shared
    let process: pid_t
    do throws(ChildProcess.StartFailure) {
      process = try reaper.start { () throws(ChildProcess.StartFailure) -> pid_t in try ChildProcess.start(job.command, output: output) }
    } catch {
      return .failed(error.description)
    }
    session.processGuard?.begins(process)
    let mustStop = course.withLock { course in
      course.group = process
      return course.isStopping
    }
    if mustStop { terminate(process) }
    let exit = await reaper.exit(of: process)
    await ProcessGroup.clear(process, grace: session.grace)
    course.withLock { $0.group = nil }
    session.processGuard?.ended(process)
    if course.withLock({ $0.isStopping }) { return stoppedResult }
    switch exit {
    case .status(0): return .succeeded
    case .status(let status): return .failed("exit status \(status)")
    case .signal(let number): return .failed("killed by signal \(number), \(String(cString: strsignal(number)))")
    }
  }

  private var stoppedResult: Result {
    if case .timedOut(let time)? = cancellationReason { return .failed("timed out after \(Shown.seconds(time.inSeconds))") }
    return .cancelled(session.explanation(of: self))
  }

  // MARK: Ending early

  override func didCancel(_ reason: CancellationReason) {
    let group = course.withLock { course in
      course.isStopping = true
      course.cancellationTime = session.recorder?.now
      return course.group
    }
    if let group { terminate(group) }
  }

  private func terminate(_ group: pid_t) {
    // Not once the group is known to have gone: its number may be another's by then.
    course.withLock { course in
      if course.group == group { ProcessGroup.signal(group, SIGTERM) }
    }
    DispatchQueue.global().asyncAfter(deadline: .now() + session.grace.inSeconds) { [weak self] in
      self?.kill(group)
    }
  }

  private func kill(_ group: pid_t) {
    course.withLock { course in
      if course.group == group { ProcessGroup.signal(group, SIGKILL) }
    }
  }

  /// Without grace.
  func kill() {
    course.withLock { course in
      if let group = course.group { ProcessGroup.signal(group, SIGKILL) }
    }
  }
}

extension JobOperation.Result {
  fileprivate var recorded: JobRecorder.Outcome {
    switch self {
    case .succeeded: .succeeded
    case .failed: .failed
    case .cancelled: .cancelled
    }
  }
}
