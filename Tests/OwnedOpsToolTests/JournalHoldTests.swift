import Foundation
import Testing

@testable import OwnedOpsTool

/// Who may write to a journal, when that can't be told, and what comes last.
@Suite(.timeLimit(.minutes(1)))
struct JournalHoldTests {
  private let directory: TemporaryDirectory
  private var path: String { directory.path + "/j" }
  private var leasePath: String { path + ".lease" }

  init() throws { directory = try TemporaryDirectory() }

  private func lease(_ identifier: String, patience: Duration = JournalLease.patienceWithLocks) throws -> JournalLease {
    do throws(JournalLease.Refusal) {
      return try JournalLease.take(path, identifier: identifier, takesOver: false, patience: patience).lease
    } catch {
      throw error.usageError(path)
    }
  }

  private func options(_ words: String...) throws -> JournalOptions {
    let arguments = try Arguments(["--journal", path].map { Array($0.utf8) } + words.map { Array($0.utf8) }, syntax: RunOptions.syntax)
    return try #require(try JournalOptions(arguments))
  }

  private func file() throws -> RunFile { try RunFile(Data(#"{"jobs":[{"name":"a","command":["true"]}]}"#.utf8), source: "test") }

  private func begun(_ journal: RunJournal, every interval: Duration = .seconds(1), whenLost: @escaping @Sendable () -> Void = {}) throws {
    try journal.begin(keeper: nil, grace: .zero, keepsOrphans: false, interval: interval, whenLost: whenLost)
  }

  /// A runner on another machine holds the lease from now on.
  private func giveLeaseToAnotherMachine() throws {
    let here = MachineProcess.current
    var line = JournalLine("lease")
    line.add("run", "other")
    line.add("host", "far")
    line.add("machine", "another")
    line.add("process", Int(here.number))
    line.add("birth", here.birth)
    line.add("start", time: WallClock.now)
    line.add("heartbeat", time: WallClock.now)
    // As runners do it: under the lock.
    let descriptor = open(leasePath, O_RDWR | O_CREAT | O_CLOEXEC, 0o666)
    defer { close(descriptor) }
    #expect(flock(descriptor, LOCK_EX) == 0 && ftruncate(descriptor, 0) == 0)
    #expect(RawFile.writeAll(line.bytes, to: descriptor) == nil)
  }

  // MARK: The end

  @Test func theEndOfAJournalWaitsForATickUnderWay() throws {
    defer { directory.remove() }
    let isSyncing = DispatchSemaphore(value: 0)
    let hasEnded = DispatchSemaphore(value: 0)
    let order = Guarded<[String]>([])
    // The first call is the tick's, and the disk fails it.
    let journal = try RunJournal(options(), file()) { _ in
      guard order.withLock({ $0.isEmpty }) else { return nil }
      order.withLock { $0.append("sync") }
      isSyncing.signal()
      // An end that doesn't wait comes meanwhile.
      _ = hasEnded.wait(timeout: .now() + 0.1)
      order.withLock { $0.append("synced") }
      return EIO
    }
    try begun(journal, every: .milliseconds(1))
    #expect(journal.submit("a", attempt: 1) == nil)
    #expect(isSyncing.wait(timeout: .now() + 30) == .success)
    #expect(!journal.end(unwritten: []))
    order.withLock { $0.append("ended") }
    hasEnded.signal()
    #expect(order.withLock { $0 } == ["sync", "synced", "ended"])
    #expect(!directory.contains("j.lease"))
  }

  @Test func whoLeavesAJournalToAnotherHasItReachTheDisk() throws {
    defer { directory.remove() }
    let seen = Guarded<[String]>([])
    let journal = try RunJournal(options(), file()) { [directory] _ in
      seen.withLock { $0.append(directory.read("j")) }
      return nil
    }
    try begun(journal, every: .seconds(1000))
    #expect(journal.submit("a", attempt: 1) == nil && seen.withLock { $0.isEmpty })
    journal.abandon()
    #expect(seen.withLock { $0.count == 1 && $0[0].contains("submitted") } && !directory.contains("j.lease"))
  }

  @Test func aJournalThatIsLostIsNotSynchronized() throws {
    defer { directory.remove() }
    let isLost = DispatchSemaphore(value: 0)
    let syncs = Guarded(0)
    let syncsAtLoss = Guarded(0)
    let writer = Guarded<RunJournal?>(nil)
    // With each time another takes over, and a line is written, which is for the next time.
    let journal = try RunJournal(options(), file()) { [self] _ in
      syncs.withLock { $0 += 1 }
      #expect(throws: Never.self) { try giveLeaseToAnotherMachine() }
      _ = writer.withLock { $0 }?.submit("a", attempt: 1)
      return nil
    }
    writer.withLock { $0 = journal }
    #expect(journal.submit("a", attempt: 1) == nil)
    try begun(journal, every: .milliseconds(1)) {
      syncsAtLoss.withLock { $0 = syncs.withLock { $0 } }
      isLost.signal()
    }
    #expect(isLost.wait(timeout: .now() + 30) == .success)
    journal.abandon()
    #expect(syncs.withLock { $0 } == syncsAtLoss.withLock { $0 } && syncs.withLock { $0 } > 0)
    writer.withLock { $0 = nil }
  }

  @Test func aRunnerThatWasAsleepLooksAtTheLeaseBeforeItWrites() throws {
    defer { directory.remove() }
    let isLost = Guarded(0)
    let journal = try RunJournal(options(), file(), now: WallClock.now - JournalLease.patience)
    // No tick comes first.
    try begun(journal, every: .seconds(1000)) { isLost.withLock { $0 += 1 } }
    let before = directory.read("j")
    try giveLeaseToAnotherMachine()
    let reason = "the journal \(path) has been taken over by another runner"
    #expect(journal.submit("a", attempt: 1) == reason)
    journal.record(.succeeded(job: "a", attempts: 1))
    journal.record([.cancelled(job: "a", reason: "")])
    #expect(!journal.end(unwritten: []))
    #expect(directory.read("j") == before && isLost.withLock { $0 } == 1)
    #expect(directory.read("j.lease").contains("far"))
  }

  // MARK: Waiting for a keeper

  /// A journal that a runner has left to its keeper, which is taken to be this process.
  private func leaveToAKeeper() throws {
    let run = JournalRun(identifier: "dead", runner: .current, keeper: .current, grace: .zero, keepsOrphans: false)
    try directory.write("j", Data(JournalHead(file()).bytes + JournalEvent.run(run).line()))
  }

  @Test func whoWaitsForAKeeperSaysThatItIsThere() throws {
    defer { directory.remove() }
    try leaveToAKeeper()
    let began = WallClock.now
    var questions = 0
    var heartbeats: [Double] = []
    let journal = try RunJournal(
      options("--resume"), file(), now: began - JournalLease.interval,
      isRunning: { _ in
        questions += 1
        if let record = JournalLease.Record(Array(directory.read("j.lease").utf8)) { heartbeats.append(record.heartbeat) }
        return questions < 4
      })
    #expect(questions == 4 && heartbeats.count == 4)
    #expect(try #require(heartbeats.last) >= began)
    journal.abandon()
  }

  @Test func whoHasWaitedForAKeeperLooksAtTheLeaseBeforeItWrites() throws {
    defer { directory.remove() }
    try leaveToAKeeper()
    let before = directory.read("j")
    var questions = 0
    #expect {
      let journal = try RunJournal(
        options("--resume"), file(),
        isRunning: { _ in
          questions += 1
          if questions == 3 { #expect(throws: Never.self) { try giveLeaseToAnotherMachine() } }
          return questions < 4
        })
      journal.abandon()
    } throws: { "\($0)" == "--journal: \(path) has been taken over by another runner" }
    #expect(directory.read("j") == before && directory.read("j.lease").contains("far"))
  }

  @Test func aRunDoesNotBeginInAJournalThatHasBecomeAnothers() throws {
    defer { directory.remove() }
    let journal = try RunJournal(options(), file())
    let before = directory.read("j")
    try giveLeaseToAnotherMachine()
    #expect { try begun(journal) } throws: { "\($0)" == "--journal: \(path) has been taken over by another runner" }
    journal.abandon()
    #expect(directory.read("j") == before && directory.read("j.lease").contains("far"))
  }

  // MARK: Making a journal

  /// What a runner that died early has left.
  private static let draft = #"{"event":"journal","#

  private func expectNoJournalBesideADraft() throws {
    let before = directory.read("j.new")
    #expect {
      let journal = try RunJournal(options(), file())
      journal.abandon()
    } throws: {
      "\($0)"
        == "--journal: can't create \(path): \(path).new, as which it is begun, is there already; remove it if no other runner is at work"
    }
    #expect(directory.read("j.new") == before)
    #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == ["j.new"])
  }

  @Test func aFileOfTheNameOfADraftIsLeftAlone() throws {
    defer { directory.remove() }
    try directory.write("j.new", "theirs")
    try expectNoJournalBesideADraft()
  }

  @Test func aDraftThatSomebodyWritesIsLeftAlone() throws {
    defer { directory.remove() }
    try directory.write("j.new", Self.draft)
    let writer = open(path + ".new", O_RDWR | O_CLOEXEC)
    defer { close(writer) }
    #expect(flock(writer, LOCK_EX) == 0)
    try expectNoJournalBesideADraft()
  }

  @Test func aDraftOfARunnerThatHasDiedIsWrittenAnew() throws {
    defer { directory.remove() }
    try directory.write("j.new", Self.draft)
    let journal = try RunJournal(options(), file())
    #expect(Array(directory.read("j").utf8).starts(with: Self.draft.utf8) && !directory.read("j").contains(Self.draft + "{"))
    // The journal itself is not locked.
    let other = open(path, O_RDWR | O_CLOEXEC)
    #expect(flock(other, LOCK_EX | LOCK_NB) == 0)
    close(other)
    journal.abandon()
    #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == ["j"])
  }

  // MARK: A lease that can't be looked at

  #if os(Linux)
    @Test func aLeaseThatCanNotBeReadIsNeitherFreeNorLost() throws {
      defer { directory.remove() }
      let mine = try lease("mine")
      unlink(leasePath)
      // Can be opened and locked, and reading its beginning is an I/O error.
      #expect(symlink("/proc/self/mem", leasePath) == 0)
      #expect(mine.keep())
      #expect(JournalLease.look(leasePath, of: "mine", speaks: true).standing == .unknown)
      #expect {
        _ = try lease("other")
      } throws: { "\($0)" == "--journal: can't read \(leasePath): Input/output error; so whether a runner is at work is not known" }
      unlink(leasePath)
      #expect(!mine.keep())
    }

    @Test func aProcessThatTheSystemHidesIsTakenToBeThere() throws {
      defer { directory.remove() }
      let child = try Child(["sleep", "300"], in: directory)
      let process = MachineProcess(number: child.identifier)
      #expect(!process.birth.isEmpty && process.isRunning)
      #expect(process.isRunning { _ in nil })
      // It goes while it is looked at.
      let isRunning = process.isRunning { _ in
        kill(child.identifier, SIGKILL)
        #expect(child.waitForStatus() == -SIGKILL)
        return nil
      }
      #expect(!isRunning && !process.isRunning { _ in nil })
    }

    @Test func whoAsksWhetherALeaseIsStaleDoesNotWaitForTheFile() throws {
      defer { directory.remove() }
      let mine = try lease("mine")
      let other = open(leasePath, O_RDONLY | O_CLOEXEC)
      #expect(flock(other, LOCK_EX) == 0)
      var hasWaited = false
      let isKept = mine.keep {
        guard !hasWaited else { return }
        hasWaited = true
        let hasAnswered = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
          _ = mine.isStale
          hasAnswered.signal()
        }
        #expect(hasAnswered.wait(timeout: .now() + 30) == .success)
        close(other)
      }
      #expect(isKept && hasWaited)
    }

    @Test func aLockOnAFileOfAnotherDeviceIsAnothers() {
      let table = """
        1: POSIX  ADVISORY  WRITE 11 fe:01:4711 0 EOF
        2: FLOCK  ADVISORY  WRITE 22 00:2d:4711 0 EOF
        2: -> FLOCK  ADVISORY  WRITE 33 fe:01:4711 0 EOF
        3: FLOCK  ADVISORY  WRITE 44 fe:01:14711 0 EOF
        4: FLOCK  ADVISORY  WRITE 55 fe:01:4711 0 EOF
        """
      #expect(FileLocks.holder(of: 4711, on: .init(major: 0xfe, minor: 1), in: table) == 55)
      #expect(FileLocks.holder(of: 4711, on: .init(major: 0, minor: 0x2d), in: table) == 22)
      #expect(FileLocks.holder(of: 4711, on: .init(major: 1, minor: 0xfe), in: table) == nil)
    }

    /// On btrfs, `stat` names another.
    @Test func theDeviceOfALockedFileIsThatOfItsMount() {
      let mounts = """
        3 1 254:0 / / rw,relatime - ext4 /dev/vda rw
        36 3 0:45 /sub /home rw,relatime shared:7 - btrfs /dev/vdb rw
        """
      #expect(FileLocks.mountedDevice("pos:\t0\nflags:\t02\nmnt_id:\t36\nino:\t4711\n", mounts) == .init(major: 0, minor: 45))
      #expect(FileLocks.mountedDevice("pos:\t0\nmnt_id:\t6\n", mounts) == nil)
      #expect(FileLocks.mountedDevice("", mounts) == nil)
      #expect(FileLocks.Device(0xfe01) == .init(major: 0xfe, minor: 1))
      #expect(FileLocks.Device(0x10_0000) == .init(major: 0, minor: 0x100))
    }

    @Test func aLockThatSomebodyKeepsIsNotWaitedForForEver() throws {
      defer { directory.remove() }
      let mine = try lease("mine")
      let other = open(leasePath, O_RDONLY | O_CLOEXEC)
      #expect(flock(other, LOCK_EX) == 0)
      #expect {
        _ = try lease("other", patience: .milliseconds(20))
      } throws: { "\($0)" == "--journal: \(leasePath) is locked by process \(getpid()); try again when that has let go of it" }
      // A keeper, which has other things to do, doesn't wait at all.
      #expect(JournalLease.look(leasePath, of: "mine", speaks: true).standing == .unknown)
      Thread.detachNewThread {
        usleep(5000)
        close(other)
      }
      #expect { _ = try lease("other", patience: .seconds(60)) } throws: { "\($0)".contains("is in use by process \(getpid())") }
      #expect(mine.keep())
    }
  #endif

  // MARK: One journal, one name

  @Test func aJournalWithASecondNameIsRefused() throws {
    defer { directory.remove() }
    try directory.write("j", Data(JournalHead(file()).bytes))
    #expect(link(path, path + "2") == 0)
    let message =
      "--journal: \(path) is one of 2 names of the same file, so two runners could be at work on it; "
      + "remove the others, or copy it"
    for words in [[], ["--resume"]] {
      #expect {
        _ = try RunJournal(words.isEmpty ? options() : options("--resume"), file())
      } throws: { "\($0)" == message }
    }
    #expect(!directory.contains("j.lease"))
    unlink(path + "2")
    try RunJournal(options("--resume"), file()).abandon()
  }

  @Test func aSymbolicLinkLeadsToTheSameLease() throws {
    defer { directory.remove() }
    try directory.write("j", Data(JournalHead(file()).bytes))
    #expect(symlink("j", path + "-link") == 0)
    let mine = try lease("mine")
    #expect {
      do throws(JournalLease.Refusal) {
        _ = try JournalLease.take(path + "-link", identifier: "other", takesOver: false)
      } catch {
        throw error.usageError("j-link")
      }
    } throws: { "\($0)".contains("j-link is in use by process \(getpid())") }
    #expect(mine.keep() && !directory.contains("j-link.lease"))
  }

  // MARK: The keeper

  private final class Syncs: Sendable {
    let lengths = Guarded<[Int]>([])
  }

  /// - Parameter syncs: gets the length of the journal at each.
  private func keeper(_ descriptor: Int32, _ syncs: Syncs, heartbeat: Double = WallClock.now) -> KeeperJournal {
    KeeperJournal(descriptor: descriptor, lease: leasePath, run: "mine", heartbeat: heartbeat) { descriptor in
      let length = JournalFile.size(of: descriptor)
      syncs.lengths.withLock { $0.append(length) }
      return nil
    }
  }

  private let exited = JournalEvent.exited(job: "a", attempt: 1, JournalExit(.status(0)))

  @Test(arguments: [false, true]) func aKeepersLastSyncComesAfterItsLastLine(_ runnerHasGone: Bool) throws {
    defer { directory.remove() }
    try directory.write("j", "")
    let descriptor = open(path, O_RDWR | O_APPEND | O_CLOEXEC)
    defer { close(descriptor) }
    _ = try lease("mine")
    let syncs = Syncs()
    var keeper = keeper(descriptor, syncs)
    if runnerHasGone { keeper.standIn() }
    #expect(keeper.record(exited, of: "a") == nil)
    #expect(keeper.nextTime.map { $0 <= .now + .seconds(1) } == (runnerHasGone ? true : nil))
    keeper.advance(to: .now + .seconds(1))
    #expect(syncs.lengths.withLock { $0.count } == (runnerHasGone ? 1 : 0))
    keeper.end()
    let length = JournalFile.size(of: descriptor)
    #expect(directory.read("j").contains(#""event":"kept""#))
    #expect(syncs.lengths.withLock { $0.last } == length)
    #expect(directory.contains("j.lease") == !runnerHasGone)
  }

  @Test func aKeeperSynchronizesWhatIsThereAlsoWhenNotAllIs() throws {
    defer { directory.remove() }
    try directory.write("j", "")
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    defer { close(descriptor) }
    _ = try lease("mine")
    let syncs = Syncs()
    var keeper = keeper(descriptor, syncs)
    #expect(keeper.record(exited, of: "a") == EBADF)
    #expect(keeper.record(exited, of: "b") == nil && keeper.unwrittenJobs == ["a", "b"])
    keeper.tryAgain()
    keeper.end()
    #expect(syncs.lengths.withLock { $0 } == [0] && keeper.unwrittenJobs == ["a", "b"])
  }

  @Test(arguments: [false, true]) func aKeeperWritesNothingInAJournalThatIsAnothers(_ isRemoved: Bool) throws {
    defer { directory.remove() }
    try directory.write("j", "")
    let descriptor = open(path, O_RDWR | O_APPEND | O_CLOEXEC)
    defer { close(descriptor) }
    _ = try lease("mine")
    let syncs = Syncs()
    // One that was asleep, one whose runner has died, one whose runner has told it, and one that is about to end.
    var keepers = [keeper(descriptor, syncs, heartbeat: WallClock.now - 31)] + (0..<3).map { _ in keeper(descriptor, syncs) }
    if isRemoved { unlink(leasePath) } else { try giveLeaseToAnotherMachine() }
    keepers[1].standIn()
    keepers[1].advance(to: .now)
    keepers[2].lose()
    for place in 0..<3 { #expect(keepers[place].record(exited, of: "a") == nil && keepers[place].isLost) }
    for place in 0..<4 { keepers[place].end() }
    #expect(directory.read("j").isEmpty && syncs.lengths.withLock { $0.isEmpty })
    #expect(keepers.allSatisfy { $0.isLost && $0.unwrittenJobs.isEmpty && $0.nextTime == nil })
    #expect(directory.contains("j.lease") == !isRemoved)
  }

  @Test func aKeeperWritesForARunnerOfItsMachineThatWaitsAndSpeaksForADeadOne() throws {
    defer { directory.remove() }
    try directory.write("j", "")
    let descriptor = open(path, O_RDWR | O_APPEND | O_CLOEXEC)
    defer { close(descriptor) }
    let child = try Child(["sleep", "300"], in: directory)
    let now = WallClock.now
    let record = JournalLease.Record(
      identifier: "successor", holder: MachineProcess(number: child.identifier), start: now, heartbeat: now)
    try directory.write("j.lease", Data(record.bytes))
    var keeper = keeper(descriptor, Syncs(), heartbeat: now - 31)
    keeper.standIn()
    #expect(keeper.record(exited, of: "a") == nil && !keeper.isLost)
    #expect(directory.read("j.lease").contains("successor"))
    kill(child.identifier, SIGKILL)
    #expect(child.waitForStatus() == -SIGKILL)
    keeper.advance(to: .now + .seconds(JournalLease.interval))
    #expect(directory.read("j.lease").contains(#""run":"mine""#) && directory.read("j.lease").contains(#""keeper":true"#))
    keeper.end()
    #expect(directory.read("j").split(separator: "\n").count == 2 && !directory.contains("j.lease"))
  }
}
