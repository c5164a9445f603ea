import Foundation

/// Waits for all children on one thread, and tells those who asked.
///
/// An exit may be seen before the one who started the process has come to ask for it; it is kept until then. Where the system allows, orphans of
/// our children become our children, so that none of them stays a zombie.
final class ChildReaper: Sendable {
  static let shared = ChildReaper()

  enum Exit: Equatable, Sendable {
    case status(Int32)
    case signal(Int32)
  }

  private struct State {
    var waiting: [pid_t: @Sendable (Exit) -> Void] = [:]
    var early: [pid_t: Exit] = [:]
    /// Started and not yet asked for: only while there are such can an unknown exit be anybody's.
    var starting = 0
    /// Signalled for every exit.
    var listener: DispatchSemaphore?
  }

  private let state = Guarded(State())
  private let work = DispatchSemaphore(value: 0)

  private init() {
    Self.adoptOrphans()
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

  /// The end of a process started with `start`. Call it once.
  func exit(of process: pid_t) async -> Exit {
    await withCheckedContinuation { continuation in
      let early = state.withLock { state -> Exit? in
        state.starting -= 1
        let exit = state.early.removeValue(forKey: process)
        // Nobody else can come for what is left: adopted orphans.
        if state.starting == 0 { state.early.removeAll() }
        if let exit { return exit }
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
      let process = waitpid(-1, &status, 0)
      if process > 0 {
        deliver(process, Self.exit(status))
      } else if errno == ECHILD {
        work.wait()
      }
    }
  }

  private func deliver(_ process: pid_t, _ exit: Exit) {
    let handler = state.withLock { state -> (@Sendable (Exit) -> Void)? in
      defer { state.listener?.signal() }
      if let handler = state.waiting.removeValue(forKey: process) { return handler }
      if state.starting > 0 { state.early[process] = exit } else { state.early.removeAll() }
      return nil
    }
    handler?(exit)
  }

  private static func exit(_ status: Int32) -> Exit {
    let signal = status & 0x7f
    return signal == 0 ? .status((status >> 8) & 0xff) : .signal(signal)
  }

  private static func adoptOrphans() {
    #if os(Linux)
      // Swift imports no variadic functions, and this is one; its arguments are passed as those of any other.
      typealias ProcessControl = @convention(c) (Int32, UInt, UInt, UInt, UInt) -> Int32
      guard let symbol = dlsym(nil, "prctl") else { return }
      let setChildSubreaper: Int32 = 36
      _ = unsafeBitCast(symbol, to: ProcessControl.self)(setChildSubreaper, 1, 0, 0, 0)
    #endif
  }
}
