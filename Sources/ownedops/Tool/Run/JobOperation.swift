import Foundation
import OwnedOperations

/// A command of the graph: executing while its processes are there. When it is cancelled, they are asked to end, and after the grace made
/// to.
final class JobOperation: OwnedAsyncOperation, @unchecked Sendable {  // what changes is in `course`
  /// What has become of the job; more than the outcome, which is cancelled as soon as it is, tells.
  enum Result: Equatable, Sendable {
    case succeeded
    case failed(String)
    case cancelled(String)
  }

  private struct Course {
    var command: (any RunningCommand)?
    /// From before its process is there until nothing of it is.
    var isAtWork = false
    var isStopping = false
    /// No grace is left.
    var isHurried = false
    /// What was tried last, from 1 on.
    var attempts = 0
    /// Of the first attempt.
    var begin: ContinuousClock.Instant?
    /// Of the last attempt, in seconds since 1970, for the results.
    var lastBegin = 0.0
    /// Nobody can tell how it has ended.
    var isInDoubt = false
    var hasTimedOut = false
    var timeoutIsRunning = false
    var result: Result?
    var wasRefused = false
  }

  let place: Int
  private let session: RunSession
  private let course = Guarded(Course())

  init(_ job: RunFile.Job, place: Int, lifetime: OwnerLifetime, session: RunSession) {
    self.place = place
    self.session = session
    super.init(lifetime: lifetime)
    if job.priority != .normal { queuePriority = job.priority }
  }

  var job: RunFile.Job { session.job(place) }
  override var name: String? {
    get { session.job(place).name }
    set {}
  }

  /// Nil until the job has been run.
  var result: Result? { course.withLock { $0.result } }

  /// Whether it never began, though its turn came.
  var wasRefused: Bool { course.withLock { $0.wasRefused } }

  /// Whether processes of it are there, or about to be.
  var isRunning: Bool { course.withLock { $0.isAtWork } }

  // MARK: Running

  override func run() async throws {
    // From here on it ends here, and the next is on its way when this one's place becomes free.
    completionBlock = nil
    defer { session.didEnd(place) }
    if let reason = session.reasonNotToStart(job) {
      course.withLock { course in
        course.result = .cancelled(reason)
        course.wasRefused = true
      }
      throw CancellationError()
    }
    let start = ContinuousClock.now
    session.counter.begin(place)
    let mark = session.recorder?.begin()
    let result = await runAndShow(from: start)
    course.withLock { $0.result = result }
    session.counter.end(place, hasFailed: result.isFailure)
    if let mark { session.recorder?.end(mark, name: job.name, owner: session.ownerName(of: job), outcome: result.recorded) }
    switch result {
    case .succeeded: break
    case .failed(let reason):
      session.jobFailed(self)
      throw UsageError(reason)
    case .cancelled: throw CancellationError()
    }
  }

  private func runAndShow(from start: ContinuousClock.Instant) async -> Result {
    let output: JobOutput
    do throws(UsageError) {
      output = try session.makeOutput(for: job)
    } catch {
      let result = Result.failed(error.description)
      record(result, nil)
      session.show(self, result, seconds: 0, output: nil)
      return result
    }
    var result = await attempt(output)
    var attempts = 1
    while attempts <= job.retries, result.isFailure, output.failure == nil, !isStopping, !isInDoubt {
      result = await attempt(output)
      attempts += 1
    }
    output.closeLog()
    if attempts > 1, case .failed(let reason) = result { result = .failed("\(reason), \(attempts) attempts") }
    // Whatever else it came to: who asked for the output can't rely on it.
    if let failure = output.failure {
      switch result {
      case .succeeded: result = .failed(failure)
      case .failed(let reason): result = .failed("\(reason); \(failure)")
      case .cancelled(let reason): result = .cancelled("\(reason); \(failure)")
      }
    }
    record(result, output)
    session.show(self, result, seconds: (ContinuousClock.now - start).inSeconds, output: output)
    return result
  }

  /// Before what depends on it can begin.
  private func record(_ result: Result, _ output: JobOutput?) {
    guard let journal = session.journal else { return }
    // Whoever goes on with the journal has to know that it is.
    guard !isInDoubt else { return }
    let attempts = course.withLock { $0.attempts }
    switch result {
    case .succeeded: journal.record(.succeeded(job: job.name, attempts: attempts))
    case .failed(let reason):
      journal.record(.failed(job: job.name, attempts: attempts, reason: reason, output: output?.tail(Self.tailLength) ?? ""))
    case .cancelled(let reason): journal.record(.cancelled(job: job.name, reason: reason))
    }
  }

  /// Of what a failed job has put out, in bytes.
  private static let tailLength = 2000

  private var isStopping: Bool { course.withLock { $0.isStopping } }
  private var isInDoubt: Bool { course.withLock { $0.isInDoubt } }

  private func attempt(_ output: JobOutput) async -> Result {
    let number = course.withLock { course in
      course.isAtWork = true
      course.attempts += 1
      return course.attempts
    }
    defer { course.withLock { $0.isAtWork = false } }
    if let reason = session.journal?.submit(job.name, attempt: number) { return .cancelled(reason) }
    defer { session.journal?.attemptEnded() }
    let started: (any RunningCommand)?
    do throws(ChildProcess.StartFailure) {
      started = try await startCommand(attempt: number, output)
    } catch {
      return .failed(error.description)
    }
    // Cancelled before there is a process: the reason is known, and nobody needs to be killed.
    guard let command = started else { return stoppedResult }
    let mustStop = course.withLock { course in
      course.command = command
      if course.begin == nil { course.begin = .now }
      return course.isStopping
    }
    if mustStop { terminate(command) }
    startTimeout()
    let end = await command.end()
    course.withLock { $0.command = nil }
    session.results?.add(JobResults.Attempt(begin: course.withLock { $0.lastBegin }, end), to: place)
    session.starts.ended()
    if end == .unknown { course.withLock { $0.isInDoubt = true } }
    if isStopping { return stoppedResult }
    switch end {
    case .exited(.status(0), _): return .succeeded
    case .exited(.status(let status), _): return .failed("exit status \(status)")
    case .exited(.signal(let number), _): return .failed("killed by signal \(number), \(String(cString: strsignal(number)))")
    case .unknown: return .failed("its keeper was killed; how it has ended is not known")
    }
  }

  /// - Returns: nil if it has been cancelled before.
  private func startCommand(attempt: Int, _ output: JobOutput) async throws(ChildProcess.StartFailure) -> (any RunningCommand)? {
    let left = job.timeout.map { timeout in timeout - (course.withLock { $0.begin }.map { .now - $0 } ?? .zero) }
    let request = CommandRequest(command: job.command, job: job.name, attempt: attempt, owner: job.owner, timeout: left)
    return try await session.starts.start(unless: self.isStopping) { () async throws(ChildProcess.StartFailure) -> any RunningCommand in
      // Not when the start is told: a keeper may tell it together with the end.
      if session.results != nil { course.withLock { $0.lastBegin = JobResults.now } }
      return try await session.host.start(request, output: output)
    }
  }

  private var stoppedResult: Result {
    if let timeout = job.timeout, course.withLock({ $0.hasTimedOut }) {
      return .failed("timed out after \(Shown.seconds(timeout.inSeconds))")
    }
    return .cancelled(session.explanation(of: job))
  }

  // MARK: Ending early

  /// Not the operation's own timeout, which begins with the operation: waiting for a process to be had is not the job's time.
  private func startTimeout() {
    guard let timeout = job.timeout, hasToStartTimeout() else { return }
    DispatchQueue.global().asyncAfter(deadline: .now() + timeout.inSeconds) { [weak self] in
      self?.timeOut()
    }
  }

  /// Once for all attempts.
  private func hasToStartTimeout() -> Bool {
    course.withLock { course in
      defer { course.timeoutIsRunning = true }
      return !course.timeoutIsRunning
    }
  }

  private func timeOut() {
    let command = course.withLock { course -> (any RunningCommand)? in
      guard !course.isStopping, course.result == nil else { return nil }
      course.isStopping = true
      course.hasTimedOut = true
      return course.command
    }
    if let command { terminate(command) }
  }

  override func didCancel(_ reason: CancellationReason) {
    let command = course.withLock { course in
      course.isStopping = true
      return course.command
    }
    if let command { terminate(command) }
  }

  private func terminate(_ command: any RunningCommand) {
    command.signal(course.withLock { $0.isHurried } ? SIGKILL : SIGTERM)
    DispatchQueue.global().asyncAfter(deadline: .now() + session.grace.inSeconds) { [weak command] in
      command?.signal(SIGKILL)
    }
  }

  /// Without grace, from now on. It may not have heard yet that its owner has ended.
  func kill() {
    let command = course.withLock { course in
      course.isStopping = true
      course.isHurried = true
      return course.command
    }
    command?.signal(SIGKILL)
  }
}

extension JobOperation.Result {
  fileprivate var isFailure: Bool {
    if case .failed = self { true } else { false }
  }

  fileprivate var recorded: JobRecorder.Outcome {
    switch self {
    case .succeeded: .succeeded
    case .failed: .failed
    case .cancelled: .cancelled
    }
  }
}
