import Foundation

/// The right to work on a journal: a file beside it that names who does so, and when it was last heard of.
///
/// Rules:
/// - The file holds one record. It is read and changed under `flock` only, and only while it has its name.
/// - Others hold that lock for a moment only: it is waited for, but not longer than ``patienceWithLocks``.
/// - What can't be looked at is neither free nor lost: nobody begins on it, and who holds the lease goes on.
/// - A record of this machine holds as long as its process is there. One of another machine holds until it is given up or taken over.
/// - Who holds it says so every ``interval``. It may be taken over after ``patience`` of silence.
/// - Clocks of machines differ. So who takes over looks on for twice an interval first, in which nothing may be said.
/// - After a runner's death its keeper speaks for it, under the same identifier.
/// - A runner whose record has gone, or is another's, has lost it: it starts nothing more.
final class JournalLease: Sendable {
  struct Record: Sendable {
    let identifier: String
    let holder: MachineProcess
    let start: Double
    var heartbeat: Double
    /// The holder keeps what a dead runner has started.
    var isKeeper = false

    init(identifier: String, holder: MachineProcess, start: Double, heartbeat: Double, isKeeper: Bool = false) {
      self.identifier = identifier
      self.holder = holder
      self.start = start
      self.heartbeat = heartbeat
      self.isKeeper = isKeeper
    }

    init?(_ bytes: [UInt8]) {
      guard let value = try? JSONParser.parse(bytes), let identifier = value["run"]?.asText,
        let holder = MachineProcess(value, prefix: ""), let start = value["start"]?.asTime, let heartbeat = value["heartbeat"]?.asTime
      else { return nil }
      self.init(
        identifier: identifier, holder: holder, start: start, heartbeat: heartbeat, isKeeper: value["keeper"]?.asBool ?? false)
    }

    /// Nothing has been said since then.
    func isSameWord(as other: Record) -> Bool { identifier == other.identifier && heartbeat == other.heartbeat }

    var bytes: [UInt8] {
      var line = JournalLine("lease")
      line.add("run", identifier)
      holder.add(to: &line, prefix: "")
      line.add("start", time: start)
      line.add("heartbeat", time: heartbeat)
      if isKeeper { line.add("keeper", true) }
      return line.bytes
    }
  }

  enum Refusal: Error {
    case inUse(Record)
    /// Silent, and not asked to take over.
    case silent(Record, Double)
    /// To take over is asked for too early.
    case tooEarly(Record, Double)
    case unreadable
    /// For longer than is waited: with the number of who has the lock, where the system tells.
    case locked(pid_t?)
    case gone
    /// It is there, and can't be looked at.
    case hidden(Int32)
    case failed(Int32)
  }

  /// What the keeper of a run learns of the journal.
  enum Standing {
    /// Its run's.
    case held
    /// A runner's of this machine, which waits for the keeper.
    case awaited
    case lost
    /// It can't be looked at for the moment.
    case unknown
  }

  static let interval = 5.0
  static let patience = 60.0
  static let patienceWithLocks = Duration.seconds(5)

  let path: String
  let identifier: String
  private let record: Guarded<Record>

  private init(path: String, _ record: Record) {
    self.path = path
    identifier = record.identifier
    self.record = Guarded(record)
  }

  /// Beside the file itself, whatever symbolic link the journal is called by.
  static func path(of journal: String) -> String { JournalFile.target(of: journal) + ".lease" }

  /// - Parameters:
  ///   - now: of the wall clock.
  ///   - patience: how long a lock of others is waited for.
  ///   - watch: how long another machine's silence is listened to before it is believed.
  ///   - pause: called again and again meanwhile.
  static func take(
    _ journal: String, identifier: String, takesOver: Bool, now: Double = WallClock.now, patience: Duration = patienceWithLocks,
    watch: Duration = .seconds(2 * interval), pause: () -> Void = { usleep(200_000) }
  ) throws(Refusal) -> (lease: JournalLease, notes: [String]) {
    let path = path(of: journal)
    var notes: [String] = []
    let silent = takesOver ? try silentRecord(path, now, patience, watch, pause) : nil
    let time = silent == nil ? now : WallClock.now
    let record = Record(identifier: identifier, holder: .current, start: time, heartbeat: time)
    let descriptor = try open(path, creates: true, patience: patience)
    defer { close(descriptor) }
    if let before = try read(descriptor) {
      if let silent, !before.isSameWord(as: silent) { throw .inUse(before) }
      try check(before, takesOver, now, &notes)
    }
    if let error = write(record, to: descriptor) {
      // A part of a record would keep everybody out.
      _ = ftruncate(descriptor, 0)
      throw .failed(error)
    }
    return (JournalLease(path: path, record), notes)
  }

  /// The record of a holder on another machine that says nothing while it is listened to. Nil if there is no such holder.
  private static func silentRecord(
    _ path: String, _ now: Double, _ patience: Duration, _ watch: Duration, _ pause: () -> Void
  ) throws(Refusal) -> Record? {
    let deadline = ContinuousClock.now + watch
    var silent: Record?
    repeat {
      guard let there = try peek(path, patience), !there.holder.isHere, now - there.heartbeat >= Self.patience else { return nil }
      if let silent, !there.isSameWord(as: silent) { throw .inUse(there) }
      silent = there
      pause()
    } while .now < deadline
    return silent
  }

  /// Nil if there is none. Opened anew each time: over NFS that has it looked at anew.
  private static func peek(_ path: String, _ patience: Duration) throws(Refusal) -> Record? {
    do throws(Refusal) {
      let descriptor = try open(path, creates: false, patience: patience)
      defer { close(descriptor) }
      return try read(descriptor)
    } catch {
      if case .gone = error { return nil }
      throw error
    }
  }

  private static func check(_ before: Record, _ takesOver: Bool, _ now: Double, _ notes: inout [String]) throws(Refusal) {
    let silence = now - before.heartbeat
    let isGone = before.holder.isHere && (before.isKeeper || !before.holder.isRunning)
    guard !isGone else { return }
    guard takesOver else { throw silence < patience ? .inUse(before) : .silent(before, silence) }
    guard silence >= patience else { throw .tooEarly(before, silence) }
    guard before.holder.isHere else {
      notes.append("taken over from process \(before.holder.number) on \(before.holder.host), silent for \(Shown.seconds(silence))")
      return
    }
    // It may wake up one day, and must not go on then.
    let isKilled = kill(before.holder.number, SIGKILL) == 0 || errno == ESRCH
    let end = isKilled ? "which is killed" : "which can't be killed: \(RawFile.message(errno))"
    notes.append("taken over from process \(before.holder.number), silent for \(Shown.seconds(silence)), \(end)")
  }

  /// Says that the holder is there.
  /// - Parameter pause: called again and again while another has the file's lock.
  /// - Returns: false if the lease is no longer held.
  func keep(pause: () -> Void = JournalLease.pause) -> Bool {
    look(pause) { descriptor in
      var spoken = record.withLock { $0 }
      spoken.heartbeat = WallClock.now
      // Others know of no heartbeat that is not written.
      if Self.write(spoken, to: descriptor) == nil { record.withLock { $0.heartbeat = spoken.heartbeat } }
    }
  }

  /// False if the lease is known to be no longer held. Says nothing to others.
  var isHeld: Bool { look(Self.pause) { _ in } }

  /// - Parameter found: called with the file, locked, if it is the holder's.
  private func look(_ pause: () -> Void, _ found: (Int32) -> Void) -> Bool {
    do throws(Refusal) {
      // Not under the lock of the record: the wait for the file may take its time.
      let descriptor = try Self.open(path, creates: false, pause: pause)
      defer { close(descriptor) }
      guard try Self.read(descriptor)?.identifier == identifier else { return false }
      found(descriptor)
      return true
    } catch {
      if case .gone = error { return false }
      // What can't be looked at for the moment is no proof.
      return true
    }
  }

  /// For long waits: does so if the last time is an ``interval`` ago.
  /// - Returns: false if the lease is known to be no longer held.
  func keepIfDue() -> Bool { abs(WallClock.now - record.withLock { $0.heartbeat }) < Self.interval || keep() }

  /// It has been silent for so long, stopped or asleep, that somebody may soon take over, or has: ``keep()`` tells.
  var isStale: Bool { Self.isStale(record.withLock { $0.heartbeat }) }

  static func isStale(_ heartbeat: Double, now: Double = WallClock.now) -> Bool { abs(now - heartbeat) > patience / 2 }

  /// For a keeper, which can't wait for a lock.
  /// - Parameter speaks: whether it is to say that it is there, because its runner is dead. It does so, too, in the place of a runner that
  ///   has waited for it and is dead.
  /// - Returns: how things stand, and when the holder was heard of.
  static func look(_ path: String, of identifier: String, speaks: Bool) -> (standing: Standing, heartbeat: Double?) {
    do throws(Refusal) {
      let descriptor = try open(path, creates: false, patience: .zero)
      defer { close(descriptor) }
      guard let there = try read(descriptor) else { return (.lost, nil) }
      let isHeld = there.identifier == identifier
      guard isHeld || there.holder.isHere else { return (.lost, nil) }
      guard speaks, isHeld || !there.holder.isRunning else { return (isHeld ? .held : .awaited, there.heartbeat) }
      let now = WallClock.now
      _ = write(Record(identifier: identifier, holder: .current, start: now, heartbeat: now, isKeeper: true), to: descriptor)
      return (.held, now)
    } catch {
      if case .gone = error { return (.lost, nil) }
      return (.unknown, nil)
    }
  }

  func giveUp() { Self.giveUp(path, identifier) }

  static func giveUp(_ path: String, _ identifier: String) {
    guard let descriptor = try? open(path, creates: false) else { return }
    defer { close(descriptor) }
    if (try? read(descriptor))?.identifier == identifier { unlink(path) }
  }

  // MARK: The file

  static func pause() { usleep(2000) }

  /// Opens and locks. Somebody who gives up takes the name away: then it is another file that counts.
  private static func open(
    _ path: String, creates: Bool, patience: Duration = patienceWithLocks, pause: () -> Void = pause
  ) throws(Refusal) -> Int32 {
    let deadline = ContinuousClock.now + patience
    while true {
      let descriptor = Foundation.open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | (creates ? O_CREAT : 0), 0o666)
      guard descriptor >= 0 else { throw errno == ENOENT && !creates ? .gone : .failed(errno) }
      do throws(Refusal) {
        try lock(descriptor, until: deadline, pause)
        if try hasItsName(descriptor, path) { return descriptor }
      } catch {
        close(descriptor)
        throw error
      }
      close(descriptor)
      if !creates { throw .gone }
    }
  }

  private static func lock(_ descriptor: Int32, until deadline: ContinuousClock.Instant, _ pause: () -> Void) throws(Refusal) {
    while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
      switch errno {
      case EINTR: continue
      case EWOULDBLOCK:
        guard .now < deadline else { throw .locked(FileLocks.holder(of: descriptor)) }
        pause()
      // Where there are no locks it goes on without: the record is what counts.
      case EINVAL, ENOLCK, ENOSYS, ENOTSUP, EOPNOTSUPP: return
      default: throw .hidden(errno)
      }
    }
  }

  private static func hasItsName(_ descriptor: Int32, _ path: String) throws(Refusal) -> Bool {
    var opened = stat()
    var named = stat()
    guard fstat(descriptor, &opened) == 0 else { throw .hidden(errno) }
    if stat(path, &named) == 0 { return FileIdentity(opened) == FileIdentity(named) }
    guard errno == ENOENT else { throw .hidden(errno) }
    return false
  }

  /// Nil if nobody has written anything.
  private static func read(_ descriptor: Int32) throws(Refusal) -> Record? {
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = bytes.withUnsafeMutableBytes { RawFile.fill($0, from: descriptor, at: 0) }
    guard count >= 0 else { throw .hidden(Int32(-count)) }
    guard count > 0 else { return nil }
    guard let record = Record(Array(bytes[..<count])) else { throw .unreadable }
    return record
  }

  private static func write(_ record: Record, to descriptor: Int32) -> Int32? {
    // Always as long, so that a shorter one leaves nothing of a longer one.
    var bytes = record.bytes
    if bytes.count < 1024 { bytes.insert(contentsOf: repeatElement(UInt8(ascii: " "), count: 1024 - bytes.count), at: bytes.count - 1) }
    let count = bytes.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, 0) }
    return count == bytes.count ? nil : count < 0 ? errno : ENOSPC
  }
}

extension JournalLease.Refusal {
  /// For people.
  func usageError(_ journal: String) -> UsageError {
    func who(_ record: JournalLease.Record) -> String {
      "process \(record.holder.number) on \(record.holder.host), at work since \(Self.clock(record.start)), last heard of at "
        + Self.clock(record.heartbeat)
    }
    switch self {
    case .inUse(let record):
      return UsageError("--journal: \(journal) is in use by \(who(record)); wait for it, or give another journal")
    case .silent(let record, let silence):
      return UsageError(
        "--journal: \(journal) is in use by \(who(record)), silent for \(Shown.seconds(silence)); if it is gone, give --take-over")
    case .tooEarly(let record, let silence):
      return UsageError(
        "--take-over: \(journal) is in use by \(who(record)), \(Shown.seconds(max(0, silence))) ago; it can be taken over after "
          + "\(Shown.seconds(JournalLease.patience)) of silence")
    case .unreadable:
      return UsageError("--journal: \(JournalLease.path(of: journal)) says nothing that can be read; remove it if no runner is at work")
    case .locked(let process):
      let holder = process.map { "process \($0)" } ?? "another process"
      return UsageError(
        "--journal: \(JournalLease.path(of: journal)) is locked by \(holder); try again when that has let go of it")
    case .hidden(let error):
      return UsageError(
        "--journal: can't read \(JournalLease.path(of: journal)): \(RawFile.message(error)); so whether a runner is at work is not known")
    case .gone: return UsageError("--journal: \(JournalLease.path(of: journal)) has been removed meanwhile")
    case .failed(let error):
      return UsageError("--journal: can't write \(JournalLease.path(of: journal)): \(RawFile.message(error))")
    }
  }

  private static func clock(_ time: Double) -> String {
    var seconds = time_t(time)
    var parts = tm()
    localtime_r(&seconds, &parts)
    var text = [CChar](repeating: 0, count: 64)
    let count = strftime(&text, text.count, "%Y-%m-%d %H:%M:%S", &parts)
    return String(decoding: text.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}
