import Foundation

/// Waits for all children on one thread, and tells those who asked.
///
/// An exit may be seen before the one who started the process has come to ask for it. It is kept until then. Where the system allows,
/// orphans of our children become our children, so that none of them stays a zombie.
final class ChildReaper: Sendable {
  static let shared = ChildReaper()

  enum Exit: Equatable, Sendable {
    case status(Int32)
    case signal(Int32)
  }

  /// How a process has ended, and what it has used.
  struct End: Sendable {
    let exit: Exit
    let usage: ProcessUsage
  }

  private struct State {
    var waiting: [pid_t: @Sendable (End) -> Void] = [:]
    var early: [pid_t: End] = [:]
    /// Started and not yet asked for: only while there are such can an unknown exit be anybody's.
    var starting = 0
    /// Signalled for every exit.
    var listener: DispatchSemaphore?
  }

  private let state = Guarded(State())
  private let work = DispatchSemaphore(value: 0)

  private init() {
    System.adoptOrphans()
    let thread = Thread { [self] in loop() }
    thread.name = "ownedops.reaper"
    thread.start()
  }

  /// Starts a process, which this reaper then waits for.
  func start(_ body: () throws(ChildProcess.StartFailure) -> pid_t) throws(ChildProcess.StartFailure) -> pid_t {
    state.withLock { $0.starting += 1 }
    do throws(ChildProcess.StartFailure) {
      let process = try body()
      work.signal()
      return process
    } catch {
      state.withLock { $0.starting -= 1 }
      throw error
    }
  }

  /// Starts a process whose end nobody asks for; it is waited for all the same.
  func startUnwatched(_ body: () throws(ChildProcess.StartFailure) -> pid_t) throws(ChildProcess.StartFailure) -> pid_t {
    let process = try body()
    work.signal()
    return process
  }

  /// ``exit(of:)`` for a thread that may block.
  func waitForExit(of process: pid_t) -> Exit {
    let result = Guarded<Exit?>(nil)
    let isOver = DispatchSemaphore(value: 0)
    Task {
      let exit = await self.exit(of: process)
      result.withLock { $0 = exit }
      isOver.signal()
    }
    isOver.wait()
    return result.withLock { $0 } ?? .status(ExitStatus.failure)
  }

  /// The end of a process started with `start`. Call this or ``end(of:)`` once.
  func exit(of process: pid_t) async -> Exit { await end(of: process).exit }

  /// The end of a process started with `start`, with what it has used. Call this or ``exit(of:)`` once.
  func end(of process: pid_t) async -> End {
    await withCheckedContinuation { continuation in
      let early = state.withLock { state -> End? in
        state.starting -= 1
        let end = state.early.removeValue(forKey: process)
        // Nobody else can come for what is left: adopted orphans.
        if state.starting == 0 { state.early.removeAll() }
        if let end { return end }
        state.waiting[process] = { continuation.resume(returning: $0) }
        return nil
      }
      if let early { continuation.resume(returning: early) }
    }
  }

  /// From now on the semaphore is signalled once for each child that exits, whoever's it was, when it has been reaped.
  func announceExits() -> DispatchSemaphore {
    let listener = DispatchSemaphore(value: 0)
    state.withLock { $0.listener = listener }
    return listener
  }

  private func loop() {
    while true {
      var status: Int32 = 0
      var usage = rusage()
      let process = wait4(-1, &status, 0, &usage)
      if process > 0 {
        deliver(process, End(exit: Self.exit(status), usage: ProcessUsage(usage)))
      } else if errno == ECHILD {
        work.wait()
      }
    }
  }

  private func deliver(_ process: pid_t, _ end: End) {
    let handler = state.withLock { state -> (@Sendable (End) -> Void)? in
      defer { state.listener?.signal() }
      if let handler = state.waiting.removeValue(forKey: process) { return handler }
      if state.starting > 0 { state.early[process] = end } else { state.early.removeAll() }
      return nil
    }
    handler?(end)
  }

  /// - Parameter status: as `wait` tells it.
  static func exit(_ status: Int32) -> Exit {
    let signal = status & 0x7f
    return signal == 0 ? .status((status >> 8) & 0xff) : .signal(signal)
  }
}

/// What a process and those of its children that it has waited for have used.
struct ProcessUsage: Equatable, Sendable {
  let userSeconds: Double
  let systemSeconds: Double
  /// Of the largest of them, in bytes. Includes what the process was before it became its program: the one that started it.
  var peakMemory: Int

  init(userSeconds: Double, systemSeconds: Double, peakMemory: Int) {
    self.userSeconds = userSeconds
    self.systemSeconds = systemSeconds
    self.peakMemory = peakMemory
  }

  init(_ usage: rusage) {
    func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
    userSeconds = seconds(usage.ru_utime)
    systemSeconds = seconds(usage.ru_stime)
    peakMemory = System.peakMemory(in: usage)
  }
}
