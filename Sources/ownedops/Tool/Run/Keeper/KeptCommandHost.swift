import Foundation

/// Runs commands as children of a keeper. See ``Keeper`` for who does what.
///
/// Rules:
/// - Requests are written by any thread, one at a time. Replies are read by one thread, which writes and waits for nothing.
/// - Each started command is told once: of its start or refusal, then of its end.
/// - When the replies end before the last one, the keeper was killed: all that is under way ends as unknown, nothing starts any more.
final class KeptCommandHost: CommandHost {
  private struct State {
    var commands: [UInt32: Running] = [:]
    var lastID: UInt32 = 0
    var isGone = false
    /// Jobs whose exits the keeper could not write down.
    var unwritten: [String]?
    var count: (@Sendable (Int) -> Void)?
  }

  /// The keeper.
  let process: pid_t
  private let socket: Int32
  private let state = Guarded(State())
  private let writing = NSLock()
  private let hasEnded = DispatchSemaphore(value: 0)
  private let mark: RunMark
  private let grace: Duration
  private let whenJournalFails: @Sendable (String) -> Void
  private let whenKilled: @Sendable () -> Void

  /// - Parameters:
  ///   - journal: a descriptor in append mode.
  ///   - whenJournalFails: told why the keeper can't write to the journal, on the thread that reads.
  ///   - whenKilled: told when the keeper has gone before its time, on the thread that reads.
  init(
    journal: RunJournal, file: RunFile, grace: Duration, keepsOrphans: Bool, whenJournalFails: @escaping @Sendable (String) -> Void,
    whenKilled: @escaping @Sendable () -> Void
  ) throws(UsageError) {
    var ends: [Int32] = [-1, -1]
    guard System.openSockets(&ends) == 0 else { throw UsageError("can't make a pair of sockets: \(RawFile.message(errno)); see ulimit -n") }
    let (ours, theirs) = (ends[0], ends[1])
    defer { close(theirs) }
    let words =
      [OwnProgram.path, Keeper.command]
      + Keeper.words(run: journal.mark.text, grace: grace, keepsOrphans: keepsOrphans, lease: journal.leasePath)
    do throws(ChildProcess.StartFailure) {
      process = try ChildReaper.shared.startUnwatched { () throws(ChildProcess.StartFailure) -> pid_t in
        try ChildProcess.start(.init(words: words), input: theirs, output: journal.descriptor)
      }
    } catch {
      close(ours)
      throw UsageError("can't start the keeper: \(error)")
    }
    socket = ours
    mark = journal.mark
    self.grace = grace
    self.whenJournalFails = whenJournalFails
    self.whenKilled = whenKilled
    send(.owners(Self.kept(file.owners)))
    let thread = Thread { [self] in loop() }
    thread.name = "ownedops.keeper"
    thread.start()
  }

  private static func kept(_ owners: [RunFile.Owner]) -> [KeptOwner] {
    owners.map { owner in
      let end: KeptOwner.End? =
        switch owner.end {
        case .process(let process): .process(process, birth: ProcessFields(of: process)?.birth ?? "")
        case .fileRemoved(let path): .fileRemoved(path)
        case .after(let time): .after(time.inSeconds)
        case nil: nil
        }
      return KeptOwner(name: owner.name, parent: owner.parent, end: end)
    }
  }

  // MARK: Commands

  func start(_ request: CommandRequest, output: JobOutput) async throws(ChildProcess.StartFailure) -> any RunningCommand {
    let command: Running? = state.withLock { state in
      guard !state.isGone else { return nil }
      state.lastID += 1
      let command = Running(id: state.lastID, output: output, host: self)
      state.commands[command.id] = command
      return command
    }
    guard let command else { throw ChildProcess.StartFailure("the keeper was killed") }
    send(.start(id: command.id, request))
    if let failure = await command.start() { throw failure }
    return command
  }

  func hurry() { send(.hurry) }

  /// The journal is another's: the keeper writes nothing there any more.
  func disownJournal() { send(.disown) }

  func end(count: @escaping @Sendable (Int) -> Void) {
    state.withLock { $0.count = count }
    send(.finish)
    hasEnded.wait()
    // What the guard ends, if it is still there itself.
    if wasKilled { mark.endBearers(grace: grace) }
  }

  /// Jobs whose exits could not be written down. To be asked after ``end(count:)``.
  var unwritten: [String] { state.withLock { $0.unwritten ?? [] } }

  var wasKilled: Bool { state.withLock { $0.isGone && $0.unwritten == nil } }

  private func send(_ request: KeeperRequest) {
    let frame = request.frame
    writing.lock()
    defer { writing.unlock() }
    // A keeper that has gone is noticed by who reads.
    _ = RawFile.writeAll(frame, to: socket)
  }

  // MARK: The thread that reads

  private func loop() {
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 16, alignment: 16)
    defer { buffer.deallocate() }
    var incoming = FrameBuffer()
    while true {
      let count = read(socket, buffer.baseAddress, buffer.count)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { break }
      incoming.add(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
      while let frame = incoming.next() { if let reply = KeeperReply(frame) { take(reply) } }
      incoming.compact()
    }
    let (left, wasKilled) = state.withLock { state in
      state.isGone = true
      defer { state.commands = [:] }
      return (Array(state.commands.values), state.unwritten == nil)
    }
    if wasKilled { whenKilled() }
    for command in left { command.didEnd(.unknown) }
    hasEnded.signal()
  }

  private func take(_ reply: KeeperReply) {
    switch reply {
    case .started(let id): command(id)?.didStart(nil)
    case .refused(let id, let isShortage, let text):
      var failure = ChildProcess.StartFailure(text)
      failure.isShortage = isShortage
      state.withLock { $0.commands.removeValue(forKey: id) }?.didStart(failure)
    case .output(let id, let piece): piece.withUnsafeBytes { command(id)?.output.add($0) }
    case .exited(let id, let exit, let usage):
      state.withLock { $0.commands.removeValue(forKey: id) }?.didEnd(.exited(exit, usage))
    case .journalFailed(let text): whenJournalFails(text)
    case .leftBehind(let count): state.withLock { $0.count }?(count)
    case .finished(let unwritten): state.withLock { $0.unwritten = unwritten }
    }
  }

  private func command(_ id: UInt32) -> Running? { state.withLock { $0.commands[id] } }

  // MARK: One command

  private final class Running: RunningCommand {
    private struct State {
      var hasStarted = false
      var failure: ChildProcess.StartFailure?
      var end: CommandEnd?
      var starting: CheckedContinuation<ChildProcess.StartFailure?, Never>?
      var ending: CheckedContinuation<CommandEnd, Never>?
    }

    let id: UInt32
    let output: JobOutput
    private let host: KeptCommandHost
    private let state = Guarded(State())

    init(id: UInt32, output: JobOutput, host: KeptCommandHost) {
      self.id = id
      self.output = output
      self.host = host
    }

    func signal(_ number: Int32) {
      guard state.withLock({ $0.end == nil }) else { return }
      host.send(.signal(id: id, number))
    }

    /// - Returns: why it did not start.
    func start() async -> ChildProcess.StartFailure? {
      await withCheckedContinuation { continuation in
        let isKnown = state.withLock { state in
          if !state.hasStarted { state.starting = continuation }
          return state.hasStarted
        }
        if isKnown { continuation.resume(returning: state.withLock { $0.failure }) }
      }
    }

    func end() async -> CommandEnd {
      await withCheckedContinuation { continuation in
        let end = state.withLock { state in
          if state.end == nil { state.ending = continuation }
          return state.end
        }
        if let end { continuation.resume(returning: end) }
      }
    }

    func didStart(_ failure: ChildProcess.StartFailure?) {
      let waiting = state.withLock { state in
        guard !state.hasStarted else { return CheckedContinuation<ChildProcess.StartFailure?, Never>?.none }
        state.hasStarted = true
        state.failure = failure
        defer { state.starting = nil }
        return state.starting
      }
      waiting?.resume(returning: failure)
    }

    func didEnd(_ end: CommandEnd) {
      // One whose start nobody has told of has perhaps started.
      didStart(nil)
      let waiting = state.withLock { state in
        state.end = end
        defer { state.ending = nil }
        return state.ending
      }
      waiting?.resume(returning: end)
    }
  }
}
