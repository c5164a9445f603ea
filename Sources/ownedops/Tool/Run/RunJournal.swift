import Foundation

/// `--journal` and what belongs to it.
struct JournalOptions: Sendable {
  var path: String
  var resumes = false
  var takesOver = false
  /// Goes on with the same run, in the place of its runner, on another machine's engine.
  var attaches = false

  /// All that it takes.
  var files: [String] { [path, JournalLease.path(of: path)] }

  static let syntax: [CommandSyntax.Option] = [
    .init(names: ["--journal"], value: "FILE", help: "write down there what becomes of each job, so that nothing is lost or run twice"),
    .init(names: ["--resume"], help: "go on with the journal: what has succeeded and is unchanged is not run again"),
    .init(names: ["--take-over"], help: "go on with a journal whose runner, on another machine, has been silent for 60 s"),
  ]

  init(path: String) { self.path = path }

  /// Nil if there is to be no journal.
  init?(_ arguments: Arguments) throws(UsageError) {
    guard let path = arguments.text("--journal") else {
      for option in ["--resume", "--take-over"] where arguments.has(option) {
        throw UsageError("\(option): which journal? give --journal FILE, too")
      }
      return nil
    }
    guard !path.isEmpty else { throw UsageError("--journal: the name is empty") }
    self.path = path
    takesOver = arguments.has("--take-over")
    resumes = arguments.has("--resume") || takesOver
  }
}

/// A run's hold of its journal, from the lease to the last line.
///
/// Rules:
/// - What must not be done before a line is there comes after the return of the call that writes it.
/// - Before a job is started there is room for its exit and those of all that run. So a disk that is full loses none.
/// - After the first line that could not be written, or when the lease is lost, nothing starts any more.
/// - Lines that could not be written are kept, tried again every second, and at the end. After a lost lease nothing is written, nor
///   synchronized.
/// - Who has been silent for long, stopped or asleep together with the machine, looks at the lease before it writes.
/// - Ticks, one a second, are calls on one queue. The end begins when none is under way and none will be.
final class RunJournal: Sendable {
  private struct State {
    var isDirty = false
    /// What could not be written, oldest first.
    var unwritten: [[UInt8]] = []
    /// Why nothing more is to start.
    var failure: String?
    var isLost = false
    var running = 0
    /// Up to where there is room.
    var room = 0
    var ticks = 0
    var hasEnded = false
  }

  let path: String
  /// In append mode; the keeper writes to it, too.
  let descriptor: Int32
  let mark: RunMark
  let resumption: Resumption
  var leasePath: String { lease.path }
  private let lease: JournalLease
  private let state = Guarded(State())
  private let timer = Guarded<(any DispatchSourceTimer)?>(nil)
  private let ticking = DispatchQueue(label: "ownedops.journal", qos: .utility)
  private let synchronize: @Sendable (Int32) -> Int32?
  private let complaints = DispatchGroup()
  private struct Listener {
    var whenLost: (@Sendable () -> Void)?
  }

  /// Told once when the lease is lost.
  private let listener = Guarded(Listener())

  // MARK: Beginning

  /// Takes the lease, waits for what a dead runner has left running, and reads what there is. Blocks.
  /// - Parameters:
  ///   - file: the whole graph.
  ///   - selection: the jobs that are to run now, by place; nil: all.
  ///   - engine: where jobs run; nil: on this machine.
  ///   - now: of the wall clock.
  ///   - synchronize: returns the error, or nil.
  ///   - isRunning: whether a keeper is there.
  ///   - check: asked whether to go on with what is there, before anything is written.
  init(
    _ options: JournalOptions, _ file: RunFile, selection: [Bool]? = nil, engine: String? = nil, now: Double = WallClock.now,
    synchronize: @escaping @Sendable (Int32) -> Int32? = { JournalFile.synchronize($0) },
    isRunning: (MachineProcess) -> Bool = { $0.isRunning }, check: (Journal) throws(UsageError) -> Void = { _ in }
  ) throws(UsageError) {
    path = options.path
    self.synchronize = synchronize
    mark = RunMark()
    // What can be seen before anything is touched.
    if let descriptor = try JournalFile.open(path) {
      defer { close(descriptor) }
      if JournalFile.size(of: descriptor) > 0 {
        try JournalReader.checkHead(of: descriptor, path: path)
        guard options.resumes else {
          throw UsageError("--journal: \(path) is there already; give --resume to go on with it, or another name")
        }
      }
    }
    do throws(JournalLease.Refusal) {
      let notes: [String]
      (lease, notes) = try JournalLease.take(path, identifier: mark.text, takesOver: options.takesOver, now: now)
      for note in notes { Console.shared.note("ownedops: \(note)") }
    } catch {
      throw error.usageError(path)
    }
    do throws(UsageError) {
      (descriptor, resumption) = try Self.begin(options, file, selection, engine, lease, check, isRunning)
    } catch {
      lease.giveUp()
      throw error
    }
  }

  private static func begin(
    _ options: JournalOptions, _ file: RunFile, _ selection: [Bool]?, _ engine: String?, _ lease: JournalLease,
    _ check: (Journal) throws(UsageError) -> Void, _ isRunning: (MachineProcess) -> Bool
  ) throws(UsageError) -> (descriptor: Int32, resumption: Resumption) {
    let path = options.path
    let fresh = Resumption(jobs: selection?.count { $0 } ?? file.jobs.count)
    guard let descriptor = try JournalFile.open(path) else { return (try JournalFile.create(path, JournalHead(file).bytes), fresh) }
    guard JournalFile.size(of: descriptor) > 0 else {
      close(descriptor)
      return (try JournalFile.create(path, JournalHead(file).bytes), fresh)
    }
    do throws(UsageError) {
      return (descriptor, try resume(descriptor, options, file, selection, engine, lease, check, isRunning))
    } catch {
      close(descriptor)
      throw error
    }
  }

  private static func resume(
    _ descriptor: Int32, _ options: JournalOptions, _ file: RunFile, _ selection: [Bool]?, _ engine: String?, _ lease: JournalLease,
    _ check: (Journal) throws(UsageError) -> Void, _ isRunning: (MachineProcess) -> Bool
  ) throws(UsageError) -> Resumption {
    let path = options.path
    var journal = try JournalReader.read(descriptor, path: path)
    if let run = journal.runs.last, !run.isEnded, let other = run.run.engine, other != engine, journal.jobs.contains(where: \.isUnderWay) {
      throw UsageError("--resume: jobs of \(path) are with \(other); first see them end with ownedops attach \(path)")
    }
    if journal.runs.contains(where: { !$0.isKept }) {
      Predecessors.waitForKeepers(of: journal, isRunning: isRunning) { lease.keepIfDue() }
      try checkHold(of: lease, path)
      // What they have written meanwhile.
      journal = try JournalReader.read(descriptor, path: path)
    }
    try check(journal)
    let killed = journal.runs.filter { !$0.isKept && $0.run.keeper != nil }
    let doubtful = killed.isEmpty ? [] : journal.jobs.filter(\.isUnderWay).map(\.definition.name)
    let resumption = try Resumption(journal, file, selection: selection, path: path, keepsEnds: options.attaches, doubtful: doubtful)
    Predecessors.endLeftovers(of: killed.map(\.run), journal) { lease.keepIfDue() }
    try checkHold(of: lease, path)
    if JournalFile.size(of: descriptor) > journal.length, ftruncate(descriptor, off_t(journal.length)) != 0 {
      throw UsageError("--journal: can't write \(path): \(RawFile.message(errno))")
    }
    let lines = resumption.lines + killed.flatMap { JournalEvent.kept(run: $0.run.identifier).line() }
    if let error = JournalFile.append(lines, to: descriptor) {
      throw UsageError("--journal: can't write \(path): \(RawFile.message(error))")
    }
    return resumption
  }

  /// To be called after a wait, and before anything is written.
  private static func checkHold(of lease: JournalLease, _ path: String) throws(UsageError) {
    guard lease.isHeld else { throw UsageError("--journal: \(path) has been taken over by another runner") }
  }

  /// What to say before it begins.
  var notes: [String] { resumption.notes }

  /// To be called when the keeper is there, and before anything is started.
  /// - Parameters:
  ///   - interval: from one tick to the next.
  ///   - whenLost: called once, on any thread, if somebody else has taken over.
  func begin(
    keeper: pid_t?, grace: Duration, keepsOrphans: Bool, engine: String? = nil, interval: Duration = .seconds(1),
    whenLost: @escaping @Sendable () -> Void
  ) throws(UsageError) {
    var run = JournalRun(
      identifier: mark.text, runner: .current, keeper: keeper.map { MachineProcess(number: $0) }, grace: grace, keepsOrphans: keepsOrphans)
    run.engine = engine
    listener.withLock { $0.whenLost = whenLost }
    try Self.checkHold(of: lease, path)
    if let error = JournalFile.append(JournalEvent.run(run).line(), to: descriptor) {
      throw UsageError("--journal: can't write \(path): \(RawFile.message(error))")
    }
    let timer = DispatchSource.makeTimerSource(queue: ticking)
    timer.schedule(deadline: .now() + interval.inSeconds, repeating: interval.inSeconds)
    timer.setEventHandler { [weak self] in self?.tick() }
    timer.resume()
    self.timer.withLock { $0 = timer }
  }

  // MARK: Events

  /// Whether the journal is still this run's. To be asked before anything beside it is written by who may have been asleep.
  var isHeld: Bool {
    if lease.isStale { renew() }
    return state.withLock { !$0.isLost }
  }

  /// To be called before each attempt at a job, which must not begin if there is a reason.
  /// - Returns: why not; nil if the line is there.
  func submit(_ job: String, attempt: Int) -> String? {
    if lease.isStale { renew() }
    let (reason, isNew) = state.withLock { state -> (String?, Bool) in
      if let failure = state.failure { return (failure, false) }
      if let error = reserve(&state) { return (fail(error, &state), true) }
      if let error = write(JournalEvent.submitted(job: job, attempt: attempt).line(), &state) { return (fail(error, &state), true) }
      state.running += 1
      return (nil, false)
    }
    if let reason, isNew { complain(reason) }
    return reason
  }

  /// An attempt that was submitted has ended, or could not be started.
  func attemptEnded() { state.withLock { $0.running -= 1 } }

  /// An attempt that an earlier runner has submitted is this one's to look after.
  func attemptGoesOn() { state.withLock { $0.running += 1 } }

  /// What has become of a job, all attempts taken together.
  /// - Parameter course: what has come before it and was seen elsewhere, with its times; it is written with it or not at all.
  func record(_ event: JournalEvent, after course: [(event: JournalEvent, time: Double)] = []) {
    if lease.isStale { renew() }
    let failure = state.withLock { state -> String? in
      let line = course.flatMap { $0.event.line(at: $0.time) } + event.line()
      guard state.unwritten.isEmpty, !state.isLost else {
        state.unwritten.append(line)
        return nil
      }
      guard let error = write(line, &state) else { return nil }
      state.unwritten.append(line)
      return state.failure == nil ? fail(error, &state) : nil
    }
    if let failure { complain(failure) }
  }

  /// Many at once, of jobs that have never begun. Where there is no room it is kept for exits.
  func record(_ events: [JournalEvent]) {
    guard !events.isEmpty else { return }
    if lease.isStale { renew() }
    let lines = events.flatMap { $0.line() }
    state.withLock { state in
      if state.failure == nil, !state.isLost, let error = write(lines, &state) { _ = fail(error, &state) }
    }
  }

  /// The keeper can't write.
  func keeperFailed(_ message: String) {
    let reason = "the journal \(path) can't be written: \(message)"
    let isNew = state.withLock { state in
      defer { if state.failure == nil { state.failure = reason } }
      return state.failure == nil
    }
    if isNew { complain(reason) }
  }

  /// Nothing starts any more.
  func stop(_ reason: String) {
    let isNew = state.withLock { state in
      defer { if state.failure == nil { state.failure = reason } }
      return state.failure == nil
    }
    if isNew { complain(reason) }
  }

  /// Why nothing more is to start; nil if all is well.
  var failure: String? { state.withLock { $0.failure } }

  private func complain(_ reason: String) {
    // Not on this thread: standard error may be blocked.
    DispatchQueue.global().async(group: complaints) { Console.shared.note("ownedops: \(reason); no more jobs are started") }
  }

  private func fail(_ error: Int32, _ state: inout State) -> String {
    let reason = "the journal \(path) can't be written: \(RawFile.message(error))"
    if state.failure == nil { state.failure = reason }
    return reason
  }

  private func write(_ lines: [UInt8], _ state: inout State) -> Int32? {
    state.isDirty = true
    return JournalFile.append(lines, to: descriptor)
  }

  static let roomForOne = 4 << 10
  private static let roomForAll = 64 << 10

  /// For the exits of what runs, and of one more.
  private func reserve(_ state: inout State) -> Int32? {
    let size = JournalFile.size(of: descriptor)
    let needed = Self.roomForAll + (state.running + 1) * Self.roomForOne
    guard size + needed > state.room else { return nil }
    // Rather too much, so that it is seldom done. Where there isn't so much, what is needed.
    for count in [needed + 1 << 20, needed] {
      guard let error = JournalFile.reserve(count, of: descriptor) else {
        state.room = size + count
        return nil
      }
      if count == needed { return error }
    }
    return nil
  }

  // MARK: Once a second, and at the end

  private func tick() {
    // It may have been asleep, and the journal be another's by now.
    if lease.isStale { renew() }
    let mustKeep = state.withLock { state in
      guard !state.hasEnded else { return false }
      state.ticks += 1
      writeAgain(&state)
      return state.ticks % Int(JournalLease.interval) == 0
    }
    lookForName()
    sync()
    if mustKeep { renew() }
  }

  /// Says that the run is there, unless that is over.
  private func renew() {
    guard !lease.keep() else { return }
    let reason = "the journal \(path) has been taken over by another runner"
    let (isNew, isFirstFailure) = state.withLock { state in
      let isNew = !state.isLost && !state.hasEnded
      let isFirstFailure = isNew && state.failure == nil
      state.isLost = true
      if isFirstFailure { state.failure = reason }
      return (isNew, isFirstFailure)
    }
    if isFirstFailure { complain(reason) }
    if isNew { listener.withLock { $0.whenLost }?() }
  }

  /// What goes on being written to a file without a name is lost.
  private func lookForName() {
    if JournalFile.isRemoved(descriptor) { stop("the journal \(path) has been removed") }
  }

  private func sync() {
    let isDirty = state.withLock { state in
      defer { state.isDirty = false }
      return state.isDirty && !state.isLost
    }
    // Not under the lock: it may take its time.
    if isDirty, let error = synchronize(descriptor) { stop("the journal \(path) can't be written: \(RawFile.message(error))") }
  }

  /// Returns when no tick is under way, and none will be.
  private func stopTicking() {
    timer.withLock { timer in
      timer?.cancel()
      timer = nil
    }
    ticking.sync {}
  }

  private func writeAgain(_ state: inout State) {
    guard !state.isLost else { return }
    while let first = state.unwritten.first, write(first, &state) == nil { state.unwritten.removeFirst() }
  }

  /// To be called when nothing runs any more and the keeper has gone.
  /// - Parameter unwritten: jobs whose exits it could not write.
  /// - Returns: false if something could not be written, which has been said.
  func end(unwritten: [String]) -> Bool {
    stopTicking()
    lookForName()
    if lease.isStale { renew() }
    let (left, isLost) = state.withLock { state in
      state.hasEnded = true
      writeAgain(&state)
      if state.unwritten.isEmpty, !state.isLost, let error = write(JournalEvent.ended(run: mark.text).line(), &state) {
        _ = fail(error, &state)
      }
      return (state.unwritten.count, state.isLost)
    }
    sync()
    if !isLost {
      JournalFile.giveBackReserve(of: descriptor)
      lease.giveUp()
    }
    if !unwritten.isEmpty {
      Console.shared.note("ownedops: --resume will run again what is not in the journal: \(Resumption.list(unwritten))")
    } else if left > 0, !isLost {
      Console.shared.note("ownedops: \(Shown.count(left, "line")) could not be written to \(path)")
    }
    close(descriptor)
    // Not for ever: whoever reads them may not.
    Console.shared.waitForReader(of: complaints)
    return state.withLock { $0.failure == nil }
  }

  /// For a run that does not come to begin, or that another runner is to go on with.
  func abandon() {
    stopTicking()
    sync()
    lease.giveUp()
    close(descriptor)
  }
}
