/// A keeper's part of the journal: what it writes there, and whether it may.
///
/// Rules:
/// - It writes as long as the lease is its run's. It also writes while the lease is that of a runner of this machine: that one waits until
///   the keeper has gone.
/// - When the lease is anybody else's, or has gone, the journal is lost. Nothing is written or synchronized any more, and the lease is left
///   alone.
/// - A lease that can't be looked at is no proof of that.
/// - The lease is looked at before a line whenever nobody is known to have spoken for so long that somebody else may. That is so after
///   having been stopped, or asleep together with the machine. Without a runner every ``JournalLease/interval``, too.
/// - A line that can't be written is kept, and so are those after it. They are tried again every second, and at the end.
/// - `fsync` is the runner's, once a second; without a runner the keeper's. At its end the keeper does it in any case.
struct KeeperJournal {
  private let descriptor: Int32
  private let lease: String
  private let run: String
  private let synchronize: (Int32) -> Int32?
  private var unwritten: [(job: String, line: [UInt8])] = []
  private var nextTry = ContinuousClock.now
  private var nextLook = ContinuousClock.now
  /// Nil: nothing is to be synchronized, or a runner does it.
  private var nextSync: ContinuousClock.Instant?
  /// When the holder of the lease is known to have spoken, by the wall clock.
  private var heartbeat: Double
  /// Without a runner the keeper speaks for it.
  private var standsIn = false
  private(set) var isLost = false

  /// - Parameters:
  ///   - heartbeat: of the wall clock.
  ///   - synchronize: returns the error, or nil.
  init(
    descriptor: Int32, lease: String, run: String, heartbeat: Double = WallClock.now,
    synchronize: @escaping (Int32) -> Int32? = { JournalFile.synchronize($0) }
  ) {
    self.descriptor = descriptor
    self.lease = lease
    self.run = run
    self.heartbeat = heartbeat
    self.synchronize = synchronize
  }

  /// Jobs whose exits are not written down, though they should be.
  var unwrittenJobs: [String] { unwritten.map(\.job) }

  /// When something is to be done here.
  var nextTime: ContinuousClock.Instant? {
    let times = [unwritten.isEmpty ? nil : nextTry, standsIn && !isLost ? nextLook : nil, nextSync]
    return times.compactMap { $0 }.min()
  }

  /// - Returns: why the line could not be written; nil if it was, and if there is nobody to whom that matters.
  mutating func record(_ event: JournalEvent, of job: String) -> Int32? {
    if JournalLease.isStale(heartbeat) { look() }
    guard !isLost else { return nil }
    let line = event.line()
    guard unwritten.isEmpty else {
      unwritten.append((job, line))
      return nil
    }
    guard let error = JournalFile.append(line, to: descriptor) else {
      needsSync()
      return nil
    }
    unwritten.append((job, line))
    nextTry = .now + .seconds(1)
    return error
  }

  /// The runner has died.
  mutating func standIn() {
    standsIn = true
    // It may have died with something not synchronized.
    needsSync()
  }

  /// It is another's, as the runner knows.
  mutating func lose() {
    isLost = true
    unwritten = []
    nextSync = nil
  }

  /// Does what is due.
  mutating func advance(to now: ContinuousClock.Instant) {
    if standsIn, nextLook <= now { look() }
    if !unwritten.isEmpty, nextTry <= now { tryAgain() }
    if let due = nextSync, due <= now {
      nextSync = nil
      _ = synchronize(descriptor)
    }
  }

  mutating func tryAgain() {
    if JournalLease.isStale(heartbeat) { look() }
    while let first = unwritten.first, JournalFile.append(first.line, to: descriptor) == nil {
      unwritten.removeFirst()
      needsSync()
    }
    nextTry = .now + .seconds(1)
  }

  /// The last line, if all others are there. Nothing may be written afterwards.
  mutating func end() {
    look()
    guard !isLost else { return }
    if unwritten.isEmpty { _ = JournalFile.append(JournalEvent.kept(run: run).line(), to: descriptor) }
    // Also what a runner has written: it may be killed before its own turn comes.
    _ = synchronize(descriptor)
    if standsIn { JournalLease.giveUp(lease, run) }
  }

  private mutating func needsSync() {
    guard standsIn, !isLost, nextSync == nil else { return }
    nextSync = .now + .seconds(1)
  }

  private mutating func look() {
    guard !isLost else { return }
    nextLook = .now + .seconds(JournalLease.interval)
    let (standing, heartbeat) = JournalLease.look(lease, of: run, speaks: standsIn)
    if let heartbeat { self.heartbeat = heartbeat }
    if standing == .lost { lose() }
  }
}
