import Foundation

/// The keeper: a process that is the parent of all commands of a run with a journal. So no exit is lost with the runner.
///
/// Who does what:
/// - The runner decides what is started when, retries, times out, ends owners, and shows output.
/// - The keeper starts, passes signals and output on, writes `started` and `exited`, and clears process groups.
/// - A guard ends what runs when the keeper itself is killed. A runner without its keeper ends the run.
///
/// Rules of a job:
/// 1. The runner has written `submitted` before it sends `start`.
/// 2. The keeper starts it, tells the guard, writes `started`, then replies.
/// 3. An exit is looked at, `exited` is written, and only then the process is waited for: until then its number is no other's.
/// 4. What is in its pipe then is sent, its group is cleared, and the reply `exited` is the last of it.
/// 5. Each command leads a session and a process group of its own. A signal goes to the group as long as that is known to be there.
///
/// Rules of a run:
/// 6. One thread does everything; it waits in one place, for the runner, for pipes, for exits, for a time.
/// 7. After `finish`, or the end of the runner's socket, nothing starts. When no job is left, orphans are ended, and `kept` is written.
/// 8. Without a runner jobs go on. Their time-outs and their owners' ends are watched here; the end of their output goes into `exited`.
/// 9. Without a runner the keeper speaks for it in the lease, until a successor has that. See ``KeeperJournal`` for whose the journal is.
/// 10. A successor waits until the keeper has gone, then reads the journal, then starts. SIGTERM to the keeper ends all jobs, with grace;
///    a second one without.
/// 11. An exit that can't be written is kept, tried again every second, and at the end; without a runner for ``patienceWithDisk``.
/// 12. When the journal has been taken over from another machine all jobs are ended, with grace.
struct Keeper {
  static let command = "__keeper"

  struct Job {
    let id: UInt32
    let name: String
    let attempt: Int
    let owner: Int?
    let group: pid_t
    var pipe: Int32?
    /// The end of what it has put out.
    var tail: [UInt8] = []
    var wasStopped = false
    var reason: String?
    var timeout: ContinuousClock.Instant?
    /// When it is made to end, once it has been asked to.
    var deadline: ContinuousClock.Instant?
    /// Its leader has exited; what it left in its group is being ended.
    var exit: ChildReaper.Exit?
    var usage: ProcessUsage?

    mutating func addToTail(_ piece: [UInt8]) {
      tail += piece.suffix(Keeper.tailLength)
      if tail.count > 5 * Keeper.tailLength { tail.removeFirst(tail.count - Keeper.tailLength) }
    }
  }

  private static let tailLength = 2000
  private static let mostOutgoing = 1 << 20
  private static let patienceWithStarts = Duration.milliseconds(2)
  private static let patienceWithDisk = Duration.seconds(60)

  let socket: Int32
  let grace: Duration
  let keepsOrphans: Bool
  let processGuard: ProcessGuard?

  var jobs: [UInt32: Job] = [:]
  private var journal: KeeperJournal
  private var groups: [pid_t: UInt32] = [:]
  private var owners: OwnerEnds?
  private var nextLookAtOwners = ContinuousClock.now
  private var incoming = FrameBuffer()
  private var outgoing: [UInt8] = []
  private var sent = 0
  /// When what is to be sent must not wait for more any longer.
  private var mustSendBy: ContinuousClock.Instant?
  private var runnerHasGone = false
  private var isFinishing = false
  private var isHurried = false
  private var isOver = false
  private var terminations: Int32 = 0
  /// Pipes of jobs that have ended, held by what they have left running.
  private var orphanPipes: [Int32] = []
  private var orphanEnds = ForcedEnds<ProcessTable.Process>()
  private var orphansShown = 0
  private var goneSince = ContinuousClock.now
  /// Of this process, in bytes, when it was looked at last.
  private var ownPeakMemory = 0
  private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 16, alignment: 16)

  // MARK: The process

  /// The words behind the command's: the run's identifier, the grace in milliseconds, `keep` or `end`, the lease.
  static func words(run: String, grace: Duration, keepsOrphans: Bool, lease: String) -> [String] {
    [run, "\(Int(min(grace.inSeconds, 1e6) * 1000))", keepsOrphans ? "keep" : "end", lease]
  }

  /// What the process does: standard input is the socket, standard output the journal.
  static func serve(_ arguments: [String]) -> Int32 {
    guard arguments.count == 4, let milliseconds = Int(arguments[1]) else { return ExitStatus.badInput }
    for number in Interruption.signals where number != SIGTERM { signal(number, SIG_IGN) }
    KeeperSignals.prepare()
    // Who reads the runner's standard error is not to wait for us.
    let nowhere = open("/dev/null", O_RDWR | O_CLOEXEC)
    dup2(nowhere, 2)
    // Commands get neither.
    let socket = fcntl(0, F_DUPFD_CLOEXEC, 3)
    let journal = fcntl(1, F_DUPFD_CLOEXEC, 3)
    dup2(nowhere, 0)
    dup2(nowhere, 1)
    close(nowhere)
    _ = fcntl(socket, F_SETFL, O_NONBLOCK)
    System.adoptOrphans()
    let keepsOrphans = arguments[2] == "keep"
    let processGuard = ProcessGuard(
      grace: .milliseconds(milliseconds), keepsOrphans: keepsOrphans, mark: RunMark(arguments[0]), reaper: nil)
    var keeper = Keeper(
      socket: socket, journal: KeeperJournal(descriptor: journal, lease: arguments[3], run: arguments[0]),
      grace: .milliseconds(milliseconds), keepsOrphans: keepsOrphans, processGuard: processGuard)
    keeper.serve()
    return ExitStatus.success
  }

  private init(socket: Int32, journal: KeeperJournal, grace: Duration, keepsOrphans: Bool, processGuard: ProcessGuard?) {
    self.socket = socket
    self.journal = journal
    self.grace = grace
    self.keepsOrphans = keepsOrphans
    self.processGuard = processGuard
  }

  private mutating func serve() {
    while true {
      reap()
      heedTerminations()
      heedDeadlines()
      if let due = mustSendBy, due <= .now { send() }
      journal.advance(to: .now)
      if runnerHasGone { standIn() }
      if isFinishing || runnerHasGone, jobs.isEmpty, orphansAreGone() { break }
      wait()
    }
    finish()
  }

  /// The one place where it waits.
  private mutating func wait() {
    var polled: [pollfd] = []
    if !runnerHasGone {
      let wantsToWrite = sent < outgoing.count && mustSendBy == nil
      polled.append(pollfd(fd: socket, events: Int16(wantsToWrite ? POLLIN | POLLOUT : POLLIN), revents: 0))
    }
    // A runner that doesn't read holds up what is put out, and nothing else.
    if outgoing.count - sent < Self.mostOutgoing {
      for job in jobs.values { if let pipe = job.pipe { polled.append(pollfd(fd: pipe, events: Int16(POLLIN), revents: 0)) } }
      for pipe in orphanPipes { polled.append(pollfd(fd: pipe, events: Int16(POLLIN), revents: 0)) }
    }
    guard KeeperSignals.wait(&polled, pause) > 0 else { return }
    for entry in polled where entry.revents != 0 {
      if entry.fd == socket { talk(entry.revents) } else { listen(to: entry.fd) }
    }
  }

  /// How long nothing has to be looked at; nil: for ever.
  private var pause: Duration? {
    if isFinishing || runnerHasGone, jobs.isEmpty { return .milliseconds(20) }
    let now = ContinuousClock.now
    var next: [ContinuousClock.Instant] = []
    if let mustSendBy { next.append(mustSendBy) }
    for job in jobs.values {
      // Nobody tells when a group has gone.
      if job.exit != nil { return .milliseconds(2) }
      if let deadline = job.deadline { next.append(max(deadline, now + .milliseconds(10))) }
      if runnerHasGone, !job.wasStopped, let timeout = job.timeout { next.append(timeout) }
    }
    if runnerHasGone, owners?.hasConditions == true { next.append(nextLookAtOwners) }
    if let time = journal.nextTime { next.append(time) }
    return next.min().map { max(.zero, $0 - now) }
  }

  // MARK: The runner

  private mutating func talk(_ events: Int16) {
    if events & Int16(POLLOUT) != 0 { send() }
    guard events & ~Int16(POLLOUT) != 0 else { return }
    while true {
      let count = read(socket, buffer.baseAddress, buffer.count)
      if count < 0, errno == EINTR { continue }
      if count < 0, errno == EAGAIN { break }
      guard count > 0 else {
        runnerDied()
        break
      }
      incoming.add(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
      if count < buffer.count { break }
    }
    while let frame = incoming.next() { if let request = KeeperRequest(frame) { take(request) } }
    incoming.compact()
  }

  private mutating func take(_ request: KeeperRequest) {
    switch request {
    case .owners(let owners): self.owners = OwnerEnds(owners)
    case .start(let id, let request): start(id, request)
    case .signal(let id, let number):
      guard var job = jobs[id] else { return }
      job.wasStopped = true
      if number == SIGKILL { job.deadline = .now } else if job.deadline == nil { job.deadline = .now + grace }
      jobs[id] = job
      ProcessGroup.signal(job.group, number)
    case .finish: isFinishing = true
    case .disown: journal.lose()
    case .hurry:
      isHurried = true
      for (id, job) in jobs where job.deadline != nil { jobs[id]?.deadline = .now }
    }
  }

  private mutating func reply(_ reply: KeeperReply) {
    guard !runnerHasGone else { return }
    outgoing += reply.frame
    send()
  }

  private mutating func send() {
    mustSendBy = nil
    while sent < outgoing.count, !runnerHasGone {
      let count = outgoing[sent...].withUnsafeBytes { write(socket, $0.baseAddress, $0.count) }
      if count >= 0 {
        sent += count
      } else if errno == EAGAIN {
        break
      } else if errno != EINTR {
        runnerDied()
      }
    }
    if sent == outgoing.count {
      outgoing.removeAll(keepingCapacity: true)
      sent = 0
    } else if sent > Self.mostOutgoing {
      outgoing.removeFirst(sent)
      sent = 0
    }
  }

  private mutating func runnerDied() {
    guard !runnerHasGone else { return }
    runnerHasGone = true
    journal.standIn()
    goneSince = .now
    outgoing = []
    sent = 0
  }

  // MARK: Jobs

  private mutating func start(_ id: UInt32, _ request: CommandRequest) {
    guard !isFinishing, !runnerHasGone else { return }
    do throws(ChildProcess.StartFailure) {
      guard let pipe = Pipe.open() else { throw ChildProcess.StartFailure("can't make a pipe for its output", error: errno) }
      defer { close(pipe.writing) }
      let process: pid_t
      do throws(ChildProcess.StartFailure) {
        process = try ChildProcess.start(request.command, output: pipe.writing)
      } catch {
        close(pipe.reading)
        throw error
      }
      processGuard?.begins(process)
      _ = fcntl(pipe.reading, F_SETFL, O_NONBLOCK)
      var job = Job(id: id, name: request.job, attempt: request.attempt, owner: request.owner, group: process, pipe: pipe.reading)
      if let timeout = request.timeout { job.timeout = .now + timeout }
      jobs[id] = job
      groups[process] = id
      record(.started(job: request.job, attempt: request.attempt, process: process), of: request.job)
      // Most are told with what comes next, so that the runner is woken once for a short command.
      if !runnerHasGone { outgoing += KeeperReply.started(id: id).frame }
      if mustSendBy == nil { mustSendBy = .now + Self.patienceWithStarts }
    } catch {
      reply(.refused(id: id, isShortage: error.isShortage, error.description))
    }
  }

  private mutating func listen(to pipe: Int32) {
    guard let id = jobs.first(where: { $0.value.pipe == pipe })?.key else {
      // Nobody is left to be told.
      let count = read(pipe, buffer.baseAddress, buffer.count)
      if count == 0, let place = orphanPipes.firstIndex(of: pipe) {
        close(pipe)
        orphanPipes.remove(at: place)
      }
      return
    }
    takeOutput(of: id, mostPieces: 1)
  }

  /// Of what is there now.
  private mutating func takeOutput(of id: UInt32, mostPieces: Int) {
    guard let pipe = jobs[id]?.pipe else { return }
    for _ in 0..<mostPieces {
      let count = read(pipe, buffer.baseAddress, buffer.count)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { return }
      guard count > 0 else {
        close(pipe)
        jobs[id]?.pipe = nil
        return
      }
      let piece = Array(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
      jobs[id]?.addToTail(piece)
      reply(.output(id: id, piece[...]))
    }
  }

  private mutating func reap() {
    while let (process, exit) = KeeperSignals.nextExit() {
      let id = groups.removeValue(forKey: process)
      if let id, let job = jobs[id] {
        takeOutput(of: id, mostPieces: 16)
        let tail = runnerHasGone ? jobs[id].map { Self.text($0.tail.suffix(Self.tailLength)) } : nil
        record(
          .exited(
            job: job.name, attempt: job.attempt, JournalExit(exit, wasStopped: job.wasStopped, reason: job.reason, output: tail)),
          of: job.name)
      }
      // From here on the number may be another's.
      let usage = KeeperSignals.reap(process)
      guard let id, let job = jobs[id] else { continue }
      jobs[id]?.usage = usage
      jobs[id]?.exit = exit
      if keepsOrphans && !job.wasStopped || !ProcessGroup.exists(job.group) {
        end(id)
      } else if job.deadline == nil {
        let deadline = ContinuousClock.now + (isHurried ? .zero : grace)
        jobs[id]?.deadline = deadline
        ProcessGroup.signal(job.group, SIGTERM)
      }
    }
  }

  private static func text(_ bytes: ArraySlice<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }

  /// Nothing of its group is left.
  private mutating func end(_ id: UInt32) {
    takeOutput(of: id, mostPieces: 16)
    guard let job = jobs.removeValue(forKey: id), let exit = job.exit else { return }
    processGuard?.ended(job.group)
    if let pipe = job.pipe { orphanPipes.append(pipe) }
    var usage = job.usage
    // The system counts what the command was before it became its program: this process.
    if let peak = usage?.peakMemory, !isMoreThanOwn(peak) { usage?.peakMemory = 0 }
    reply(.exited(id: id, exit, usage))
  }

  /// Asks the system only where what it said last is too little.
  private mutating func isMoreThanOwn(_ memory: Int) -> Bool {
    if memory > ownPeakMemory { ownPeakMemory = ProcessCost.now.peakMemory }
    return memory > ownPeakMemory
  }

  // MARK: Ends

  /// What was asked to end is made to when its time is over. Groups are looked at whether they are gone.
  private mutating func heedDeadlines() {
    let now = ContinuousClock.now
    for (id, job) in jobs {
      if job.exit != nil, !ProcessGroup.exists(job.group) {
        end(id)
      } else if let deadline = job.deadline, deadline <= now {
        ProcessGroup.signal(job.group, SIGKILL)
        // What hangs in the kernel is not waited for for ever.
        if job.exit != nil, deadline + .seconds(5) <= now { end(id) }
      }
    }
  }

  private mutating func stop(_ id: UInt32, _ reason: String) {
    guard let job = jobs[id], !job.wasStopped else { return }
    jobs[id]?.wasStopped = true
    jobs[id]?.reason = reason
    let deadline = ContinuousClock.now + grace
    jobs[id]?.deadline = deadline
    ProcessGroup.signal(job.group, grace > .zero ? SIGTERM : SIGKILL)
  }

  private mutating func heedTerminations() {
    let count = KeeperSignals.terminations
    guard count > terminations else { return }
    if terminations == 0 { for id in Array(jobs.keys) { stop(id, "interrupted") } }
    if count > 1 {
      isHurried = true
      for id in Array(jobs.keys) { jobs[id]?.deadline = .now }
    }
    terminations = count
  }

  /// What is the runner's to do while there is one.
  private mutating func standIn() {
    let now = ContinuousClock.now
    var ends: [Int: String] = [:]
    if let owners, nextLookAtOwners <= now {
      ends = owners.ended()
      nextLookAtOwners = ContinuousClock.now + OwnerWatch.pause(after: ContinuousClock.now - now)
    }
    for (id, job) in jobs where job.exit == nil {
      if journal.isLost { stop(id, "its journal was taken over") }
      if let timeout = job.timeout, timeout <= now { stop(id, "timed out") }
      if let owner = job.owner, let reason = ends[owner] { stop(id, reason) }
    }
  }

  /// Asks what has left its job's group to end, and makes it.
  private mutating func orphansAreGone() -> Bool {
    guard !keepsOrphans else { return true }
    let own = OutputSink.processes.union(processGuard.map { [$0.process] } ?? [])
    let left = ProcessTable().descendants(of: getpid(), except: own).filter { !orphanEnds.hasGivenUp($0) }
    for process in left { orphanEnds.end(process, grace: isHurried ? .zero : grace) }
    if left.count != orphansShown {
      orphansShown = left.count
      reply(.leftBehind(left.count))
    }
    return left.isEmpty
  }

  /// Says its last words.
  private mutating func finish() {
    journal.tryAgain()
    while !journal.unwrittenJobs.isEmpty, runnerHasGone, .now - goneSince < Self.patienceWithDisk {
      var none: [pollfd] = []
      _ = KeeperSignals.wait(&none, .seconds(1))
      journal.advance(to: .now)
    }
    journal.end()
    if keepsOrphans { for pipe in orphanPipes { OutputSink.start(reading: pipe, reaper: nil) } }
    // The rest of what it has put out goes before; a runner that is there reads it.
    _ = fcntl(socket, F_SETFL, 0)
    reply(.finished(unwritten: journal.unwrittenJobs))
  }

  // MARK: The journal

  private mutating func record(_ event: JournalEvent, of job: String) {
    if let error = journal.record(event, of: job) { reply(.journalFailed(RawFile.message(error))) }
  }
}
