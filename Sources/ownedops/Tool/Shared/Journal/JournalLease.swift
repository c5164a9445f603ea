import Foundation

/// The right to work on a journal: a file beside it that names who does so, and when it was last heard of.
///
/// Rules:
/// - The file holds one record; it is read and changed under `flock` only, and only while it has its name.
/// - A record of this machine holds as long as its process is there; one of another machine until it is given up or taken over.
/// - Who holds it says so every ``interval``. It may be taken over after ``patience`` of silence.
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
        let holder = MachineProcess(value, prefix: ""), let start = value["start"]?.asNumber, let heartbeat = value["heartbeat"]?.asNumber
      else { return nil }
      self.init(
        identifier: identifier, holder: holder, start: start, heartbeat: heartbeat, isKeeper: value["keeper"]?.asBool ?? false)
    }

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
    case failed(Int32)
  }

  static let interval = 5.0
  static let patience = 60.0

  let path: String
  let identifier: String
  private let record: Guarded<Record>

  private init(path: String, _ record: Record) {
    self.path = path
    identifier = record.identifier
    self.record = Guarded(record)
  }

  static func path(of journal: String) -> String { journal + ".lease" }

  /// - Parameter now: of the wall clock.
  static func take(
    _ journal: String, identifier: String, takesOver: Bool, now: Double = WallClock.now
  ) throws(Refusal) -> (lease: JournalLease, notes: [String]) {
    let path = path(of: journal)
    let record = Record(identifier: identifier, holder: .current, start: now, heartbeat: now)
    var notes: [String] = []
    let descriptor = try open(path, creates: true)
    defer { close(descriptor) }
    if let before = try read(descriptor) { try check(before, takesOver, now, &notes) }
    if let error = write(record, to: descriptor) { throw .failed(error) }
    return (JournalLease(path: path, record), notes)
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
    kill(before.holder.number, SIGKILL)
    notes.append("taken over from process \(before.holder.number), silent for \(Shown.seconds(silence)), which is killed")
  }

  /// Says that the holder is there.
  /// - Returns: false if the lease is no longer held.
  func keep() -> Bool {
    record.withLock { record in
      record.heartbeat = WallClock.now
      return Self.change(path, to: record)
    }
  }

  /// For the keeper of a dead runner. Nothing happens if somebody has taken over.
  static func keep(_ path: String, inPlaceOf identifier: String) {
    let now = WallClock.now
    _ = change(path, to: Record(identifier: identifier, holder: .current, start: now, heartbeat: now, isKeeper: true))
  }

  func giveUp() { Self.giveUp(path, identifier) }

  static func giveUp(_ path: String, _ identifier: String) {
    guard let descriptor = try? open(path, creates: false) else { return }
    defer { close(descriptor) }
    if (try? read(descriptor))?.identifier == identifier { unlink(path) }
  }

  // MARK: The file

  /// - Returns: false if it is another's.
  private static func change(_ path: String, to record: Record) -> Bool {
    let descriptor: Int32
    do throws(Refusal) {
      descriptor = try open(path, creates: false)
    } catch {
      if case .failed(ENOENT) = error { return false }
      // What can't be looked at for the moment is no proof.
      return true
    }
    defer { close(descriptor) }
    guard let there = try? read(descriptor), there.identifier == record.identifier else { return false }
    _ = write(record, to: descriptor)
    return true
  }

  /// Opens and locks. Somebody who gives up takes the name away: then it is another file that counts.
  private static func open(_ path: String, creates: Bool) throws(Refusal) -> Int32 {
    while true {
      let descriptor = Foundation.open(path, O_RDWR | O_CLOEXEC | (creates ? O_CREAT : 0), 0o666)
      guard descriptor >= 0 else { throw .failed(errno) }
      // Where there are no locks it goes on without: the record is what counts.
      while flock(descriptor, LOCK_EX) != 0, errno == EINTR {}
      var opened = stat()
      var named = stat()
      if fstat(descriptor, &opened) == 0, stat(path, &named) == 0, FileIdentity(opened) == FileIdentity(named) { return descriptor }
      close(descriptor)
      if !creates { throw .failed(ENOENT) }
    }
  }

  /// Nil if nobody has written anything.
  private static func read(_ descriptor: Int32) throws(Refusal) -> Record? {
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = bytes.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, $0.count, 0) }
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
