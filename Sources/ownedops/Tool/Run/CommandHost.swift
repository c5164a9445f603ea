import Foundation

/// Where the commands of jobs run: as children of this process, or of a keeper that outlives it.
protocol CommandHost: Sendable {
  /// Starts a command. What it puts out is added to the output as it comes.
  func start(_ request: CommandRequest, output: JobOutput) async throws(ChildProcess.StartFailure) -> any RunningCommand

  /// Ends what commands have left behind, unless orphans are kept. Blocks until none of it is left. To be called once, when no command
  /// runs any more.
  /// - Parameter count: told of how many it waits for.
  func end(count: @escaping @Sendable (Int) -> Void)

  /// From now on there is no grace.
  func hurry()
}

/// One attempt at a job.
struct CommandRequest: Sendable {
  let command: ChildProcess.Command
  let job: String
  /// From 1 on.
  let attempt: Int
  /// The place of its owner in the file.
  let owner: Int?
  /// What is left of the job's time.
  let timeout: Duration?
}

/// A command that has been started, with all that is in its process group.
protocol RunningCommand: AnyObject, Sendable {
  /// Sends a signal to the whole group; nothing once the group is known to have gone.
  func signal(_ number: Int32)

  /// When the command has ended, its group has been cleared, and all its output has been added. Call it once.
  func end() async -> CommandEnd
}

enum CommandEnd: Equatable, Sendable {
  /// What it has used is nil where the system does not tell.
  case exited(ChildReaper.Exit, ProcessUsage?)
  /// Nobody can tell: its keeper was killed.
  case unknown
}

/// Runs commands as children of this process.
final class LocalCommandHost: CommandHost {
  private let grace: Duration
  private let keepsOrphans: Bool
  private let processGuard: ProcessGuard?
  private let orphans: Orphans
  private let pump: OutputPump
  private let isHurried = Guarded(false)

  init(grace: Duration, keepsOrphans: Bool) throws(UsageError) {
    guard let pump = OutputPump() else { throw UsageError("can't make a pipe: \(RawFile.message(errno)); see ulimit -n") }
    self.pump = pump
    self.grace = grace
    self.keepsOrphans = keepsOrphans
    processGuard = ProcessGuard(grace: grace, keepsOrphans: keepsOrphans)
    orphans = Orphans(processGuard: processGuard)
  }

  func start(_ request: CommandRequest, output: JobOutput) async throws(ChildProcess.StartFailure) -> any RunningCommand {
    guard let pipe = Pipe.open() else { throw ChildProcess.StartFailure("can't make a pipe for its output", error: errno) }
    defer { close(pipe.writing) }
    do throws(ChildProcess.StartFailure) {
      let process = try ChildReaper.shared.start { () throws(ChildProcess.StartFailure) -> pid_t in
        try ChildProcess.start(request.command, output: pipe.writing)
      }
      processGuard?.begins(process)
      pump.attach(pipe.reading, to: output)
      return Running(process: process, pipe: pipe.reading, host: self)
    } catch {
      close(pipe.reading)
      throw error
    }
  }

  func end(count: @escaping @Sendable (Int) -> Void) {
    if !keepsOrphans { orphans.end(grace: grace, isHurried: { isHurried.withLock { $0 } }, count: count) }
    pump.end()
  }

  func hurry() { isHurried.withLock { $0 = true } }

  private final class Running: RunningCommand {
    private struct State {
      var isThere = true
      var wasSignalled = false
      var wasKilled = false
    }

    private let process: pid_t
    private let pipe: Int32
    private let host: LocalCommandHost
    private let state = Guarded(State())

    init(process: pid_t, pipe: Int32, host: LocalCommandHost) {
      self.process = process
      self.pipe = pipe
      self.host = host
    }

    func signal(_ number: Int32) {
      // Not once the group is known to have gone: its number may be another's by then.
      state.withLock { state in
        guard state.isThere else { return }
        state.wasSignalled = true
        state.wasKilled = state.wasKilled || number == SIGKILL
        ProcessGroup.signal(process, number)
      }
    }

    func end() async -> CommandEnd {
      let end = await ChildReaper.shared.end(of: process)
      if !host.keepsOrphans || state.withLock({ $0.wasSignalled }) {
        await ProcessGroup.clear(
          process, grace: host.grace, isHurried: { host.isHurried.withLock { $0 } || state.withLock { $0.wasKilled } })
      }
      state.withLock { $0.isThere = false }
      host.processGuard?.ended(process)
      if await host.pump.detach(pipe), await StartsUnderWay.shared.leaveAWriter(to: pipe) { OutputSink.start(reading: pipe) }
      close(pipe)
      return .exited(end.exit, end.usage)
    }
  }
}
