import Foundation
import Testing

@testable import OwnedOpsTool

#if os(Linux)
  /// Runners and keepers that are killed, disks that are full: nothing is lost, nothing runs twice, and what may have is named.
  @Suite(.timeLimit(.minutes(10)))
  struct KeeperTests {
    private func shell(_ name: String, _ line: String, _ more: String = "") -> String {
      let command = (try? JSONEncoder().encode(["sh", "-c", line])).map { String(decoding: $0, as: UTF8.self) } ?? ""
      return "{\"name\":\"\(name)\",\"command\":\(command)\(more.isEmpty ? "" : "," + more)}"
    }

    private func write(_ jobs: [String], _ more: String = "", to directory: TemporaryDirectory) throws {
      try directory.write("graph.json", "{\(more)\"jobs\":[\(jobs.joined(separator: ","))]}")
    }

    private func run(_ arguments: String..., in directory: TemporaryDirectory) async throws -> ToolBinary.Outcome {
      try await ToolBinary.run(["run", "graph.json", "--journal", "j"] + arguments, in: directory)
    }

    /// Writes a line for each job, in an order that dependencies leave open.
    private func writeGraph(of count: Int, to directory: TemporaryDirectory, log: String = "log") throws {
      try write(
        (0..<count).map { number in
          shell("j\(number)", "echo j\(number) >> \(log)", number < 7 ? "" : "\"after\":[\"j\(number - 7)\"]")
        }, to: directory)
    }

    private func expectEachOnce(_ count: Int, in log: String) {
      var times: [Substring: Int] = [:]
      for line in log.split(separator: "\n") { times[line, default: 0] += 1 }
      #expect(times.count == count)
      for (name, number) in times where number != 1 { Issue.record("\(name) ran \(number) times") }
    }

    /// The sequence of splitmix64.
    private struct Seeded: RandomNumberGenerator {
      var state: UInt64
      mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var word = state
        word = (word ^ word >> 30) &* 0xbf58_476d_1ce4_e5b9
        word = (word ^ word >> 27) &* 0x94d0_49bb_1331_11eb
        return word ^ word >> 31
      }
    }

    /// With `OWNED_OPERATIONS_KILL_ROUNDS=200` as many rounds; `OWNED_OPERATIONS_KILL_SEED` for other moments.
    @Test func aRunnerKilledAtAnyMomentLosesNothingAndRunsNothingTwice() async throws {
      let environment = ProcessInfo.processInfo.environment
      let rounds = environment["OWNED_OPERATIONS_KILL_ROUNDS"].flatMap { Int($0) } ?? 40
      let seed = environment["OWNED_OPERATIONS_KILL_SEED"].flatMap { UInt64($0) } ?? 17
      let longest: UInt32 = Sanitizer.isActive ? 800_000 : 250_000
      let count = 500
      var random = Seeded(state: seed)
      var kills = 0
      var graphs = 0
      while kills < rounds {
        let directory = try TemporaryDirectory()
        defer { directory.remove() }
        try writeGraph(of: count, to: directory)
        graphs += 1
        while true {
          let child = try Child(
            [ToolBinary.url.path, "run", "graph.json", "--journal", "j", "--resume", "-q", "-j4"], in: directory,
            errors: directory.path + "/errors")
          if kills < rounds {
            usleep(.random(in: 0...longest, using: &random))
            kill(child.identifier, SIGKILL)
          }
          let status = child.waitForStatus()
          #expect(!directory.read("errors").contains("may have run already"))
          guard status == -SIGKILL else {
            #expect(status == 0, "\(directory.read("errors"))")
            break
          }
          kills += 1
        }
        expectEachOnce(count, in: directory.read("log"))
        let journal = try JournalReader.read(directory.path + "/j")
        #expect(journal.jobs.allSatisfy(\.hasSucceeded) && journal.runs.allSatisfy(\.isKept))
        #expect(!directory.contains("j.lease"))
      }
      print("\(kills) kills of the runner, \(graphs) graphs of \(count) jobs, seed \(seed): each job exactly once")
    }

    @Test func statusDoesNotSayThatAJobRunsWhoseRunnerAndKeeperHaveGone() async throws {
      let directory = try TemporaryDirectory()
      defer { directory.remove() }
      let line = "kill -KILL $(cut -d ' ' -f 4 /proc/$PPID/stat) $PPID"
      try write([shell("long", line), shell("next", "true", #""after":["long"]"#)], to: directory)
      #expect(try await run(in: directory).status == -SIGKILL)
      try expectEndOfKeeper(in: directory)
      let status = try await ToolBinary.run(["status", "j"], in: directory)
      #expect(status.output.hasPrefix("0 of 2 jobs succeeded, 1 cut off, 1 waiting\n"))
      #expect(status.output.contains("has gone, too\n"))
      #expect(status.output.contains("cut off:\n  long: "))
      #expect(!status.output.contains("running"))
    }

    @Test func aJobThatRunsWhenItsRunnerIsKilledGoesOnAndItsSuccessorWaitsForIt() async throws {
      let directory = try TemporaryDirectory()
      defer { directory.remove() }
      // It goes on when the successor has been started, and has been told that it waits.
      let line = "echo begun >> log; echo out; kill -KILL $(cut -d ' ' -f 4 /proc/$PPID/stat); read x < go; echo end >> log; echo done"
      try write([shell("long", line), shell("next", "echo next >> log", #""after":["long"]"#)], to: directory)
      #expect(mkfifo(directory.path + "/go", 0o600) == 0)
      let first = try await run(in: directory)
      #expect(first.status == -SIGKILL)
      let status = try await ToolBinary.run(["status", "j"], in: directory)
      #expect(status.status == 1)
      #expect(status.output.hasPrefix("0 of 2 jobs succeeded, 1 running, 1 waiting\n"))
      #expect(status.output.contains("has gone before its end; run again with --resume") && status.output.contains("its keeper, process "))
      #expect(status.output.contains("waiting:\n  next: for long\n"))
      let second = try Child(
        [ToolBinary.url.path, "run", "graph.json", "--journal", "j", "--resume"], in: directory, output: directory.path + "/out",
        errors: directory.path + "/errors")
      while !directory.read("errors").contains("waiting for long, which an earlier runner has started; kill ") { usleep(1000) }
      // A third has to leave both alone.
      let third = try await run("--resume", in: directory)
      #expect(third.status == 2 && third.errors.contains("is in use by process \(second.identifier) "))
      #expect(directory.read("log") == "begun\n")
      let go = open(directory.path + "/go", O_RDWR | O_CLOEXEC)
      #expect(Foundation.write(go, "x\n", 2) == 2)
      #expect(await second.status() == 0)
      close(go)
      #expect(directory.read("log") == "begun\nend\nnext\n")
      #expect(directory.read("errors").contains("succeeded while no runner was there: long"))
      #expect(directory.read("out").hasSuffix("2 succeeded (1 before), 0 failed, 0 cancelled\n"))
      // What it put out is not lost: nobody was there to show it.
      #expect(directory.read("j").contains(#""output":"out\ndone\n""#))
    }

    @Test func aKeeperWithoutARunnerHeedsTimeOutsAndOwnersEnds() async throws {
      let directory = try TemporaryDirectory()
      defer { directory.remove() }
      try directory.write("flag", "")
      let deadly = "echo begun >> log; while [ $(wc -l < log) -lt 2 ]; do sleep 0.01; done; mkdir first 2>/dev/null && "
      let kill = "{ kill -KILL $(cut -d ' ' -f 4 /proc/$PPID/stat); rm flag; }; exec sleep 300"
      try directory.write("log", "")
      try write(
        [
          shell("timed", deadly + kill, #""timeout":"15s""#),
          shell("owned", deadly + kill, #""owner":"o""#),
        ], #""owners":[{"name":"top","endsWhen":{"fileRemoved":"flag"}},{"name":"o","parent":"top"}],"#, to: directory)
      #expect(try await run("-j2", "--grace", "1s", in: directory).status == -SIGKILL)
      try write([shell("timed", "true"), shell("owned", "true")], to: directory)
      // Its commands have changed, and are quick.
      let second = try await run("--resume", in: directory)
      #expect(second.status == 0)
      let lines = directory.read("j").split(separator: "\n").filter { $0.contains(#""stopped":true"#) }
      #expect(lines.count == 2)
      #expect(lines.contains { $0.contains(#""job":"timed""#) && $0.contains(#""reason":"timed out""#) })
      #expect(lines.contains { $0.contains(#""job":"owned""#) && $0.contains(#""reason":"its owner top ended: flag has gone""#) })
    }

    /// A command that is deaf to SIGTERM looks how much processor time its keeper takes from its time-out to the end of the grace.
    @Test func aKeeperThatWaitsTakesNoProcessor() async throws {
      let directory = try TemporaryDirectory()
      defer { directory.remove() }
      let line = """
        [ ! -e ticks ] || exit 0; trap 'trap "" TERM; told=1' TERM; kill -KILL $(cut -d ' ' -f 4 /proc/$PPID/stat)
        ticks() { set -- $(cut -d ' ' -f 14,15 /proc/$PPID/stat); echo $(($1 + $2)); }
        until [ "$told" ]; do sleep 0.05; done; before=$(ticks); sleep 1; echo $(($(ticks) - before)) > ticks
        """
      try write([shell("a", line, #""timeout":"10s""#)], to: directory)
      #expect(try await run("--grace", "60s", in: directory).status == -SIGKILL)
      #expect(try await run("--resume", in: directory).status == 0)
      #expect(directory.read("j").contains(#""reason":"timed out""#))
      // Of a hundred.
      #expect(try #require(Int(directory.read("ticks").dropLast())) < 20)
    }

    @Test func aRunnerWhoseKeeperIsKilledStopsAndSaysWhatMayHaveRun() async throws {
      let directory = try TemporaryDirectory()
      defer { directory.remove() }
      let line = "[ -e go ] && exit 0; sleep 300 & echo $! > pids; echo $$ >> pids; kill -KILL $PPID; wait"
      try write([shell("done", "true"), shell("a", line, #""after":["done"]"#), shell("b", "touch ran", #""after":["a"]"#)], to: directory)
      let outcome = try await run("--grace", "100ms", in: directory)
      #expect(outcome.status == 1)
      #expect(outcome.errors.contains("ownedops: the keeper was killed; no more jobs are started"))
      #expect(outcome.output.contains("failed a: its keeper was killed; how it has ended is not known"))
      #expect(directory.processes(in: "pids").count == 2)
      for process in directory.processes(in: "pids") { #expect(!Processes.isRunning(process)) }
      try directory.write("go", "")
      let second = try await run("--resume", in: directory)
      #expect(second.status == 0)
      #expect(second.errors == "ownedops: a keeper was killed: a may have run already; it runs again, at least once in all\n")
      #expect(directory.contains("ran"))
      // That has been dealt with.
      #expect(try await run("--resume", in: directory).errors.isEmpty)
    }

    @Test func whatKilledKeepersAndGuardsLeaveRunningEndsBeforeASuccessorBegins() async throws {
      let directory = try TemporaryDirectory()
      defer { directory.remove() }
      // All but the job: the runner, the keeper, and the keeper's other child, the guard.
      let line = """
        if [ -e pids ]; then [ -z "$(tr -d '\\0' 2>/dev/null < /proc/$(cat pids)/environ)" ] || echo beside >> log; echo again >> log; exit 0; fi
        echo $$ > pids; runner=$(cut -d ' ' -f 4 /proc/$PPID/stat)
        for child in $(cat /proc/$PPID/task/$PPID/children); do [ $child = $$ ] || kill -KILL $child; done
        kill -KILL $runner $PPID; exec sleep 300
        """
      try write([shell("a", line)], to: directory)
      #expect(try await run("--grace", "100ms", in: directory).status == -SIGKILL)
      let process = try #require(directory.processes(in: "pids").first)
      try expectEndOfKeeper(in: directory)
      let second = try await run("--resume", in: directory)
      #expect(second.status == 0)
      #expect(second.errors == "ownedops: a keeper was killed: a may have run already; it runs again, at least once in all\n")
      #expect(!Processes.isRunning(process))
      #expect(directory.read("log") == "again\n")
    }

    @Test func aKeeperWhoseJournalWasTakenOverFromAnotherMachineEndsItsJobsAndWritesNothing() async throws {
      let directory = try TemporaryDirectory()
      defer { directory.remove() }
      let here = MachineProcess.current
      var record = JournalLine("lease")
      record.add("run", "other")
      record.add("host", "far")
      record.add("machine", "another")
      record.add("process", Int(here.number))
      record.add("birth", here.birth)
      record.add("start", time: WallClock.now)
      record.add("heartbeat", time: WallClock.now)
      try directory.write("far", Data(record.bytes))
      let hasStarted = "until grep -q '\"started\"' j; do sleep 0.01; done"
      // The runner is stopped first: it must not find out before the keeper is alone, and write that down.
      let runner = "runner=$(cut -d ' ' -f 4 /proc/$PPID/stat); kill -STOP $runner"
      let line = "\(hasStarted); echo $$ > pids; \(runner); cp far j.lease; cp j seen; kill -KILL $runner; exec sleep 300"
      try write([shell("a", line)], to: directory)
      #expect(try await run(in: directory).status == -SIGKILL)
      try expectEndOfKeeper(in: directory)
      for process in directory.processes(in: "pids") { #expect(!Processes.isRunning(process)) }
      #expect(directory.read("j") == directory.read("seen"))
      #expect(directory.read("j.lease") == directory.read("far"))
    }

    @Test func sigtermToAKeeperEndsWhatADeadRunnerHasLeft() async throws {
      let directory = try TemporaryDirectory()
      defer { directory.remove() }
      let line = "[ -e pids ] && exit 0; echo $$ > pids; kill -KILL $(cut -d ' ' -f 4 /proc/$PPID/stat); kill -TERM $PPID; exec sleep 300"
      try write([shell("a", line)], to: directory)
      #expect(try await run(in: directory).status == -SIGKILL)
      let second = try await run("--resume", in: directory)
      #expect(second.status == 0)
      #expect(directory.read("j").contains(#""signal":15,"stopped":true,"reason":"interrupted""#))
    }

    /// Optimised, 10,000 jobs; wanted are 1.1 times as long. Beside other processes the two runs of a round seldom get as much of the
    /// machine as each other: what there is to do is told by the time of processors, and that on the wall tells of long waits only.
    @Test func aJournalCostsLittle() async throws {
      let directory = try TemporaryDirectory()
      defer { directory.remove() }
      #if DEBUG
        let (count, rounds) = (300, 10)
      #else
        let (count, rounds) = (10_000, 3)
      #endif
      // The last job tells what has been used until then, in hundredths of a second: by its parent, the runner or its keeper, with all
      // commands that have ended; and by the runner, if that is another. (The runner need not wait for its keeper, and so the system does
      // not tell it to who waits for the runner.)
      let runner = " $(cut -d ' ' -f 14,15 /proc/$(cut -d ' ' -f 4 /proc/$PPID/stat)/stat)"
      for (file, more) in [("plain", ""), ("kept", runner)] {
        let line = "set -- $(cut -d ' ' -f 14-17 /proc/$PPID/stat)\(more); echo $(($1 + $2 + $3 + $4 + ${5:-0} + ${6:-0})) > ticks"
        let jobs = (0..<count).map { "{\"name\":\"j\($0)\",\"command\":[\"true\"]}" }
        try write(jobs + [shell("last", line, "\"after\":[\"j\(count - 1)\"]")], to: directory)
        try directory.write(file, directory.read("graph.json"))
      }
      var (ratios, wallRatios): ([Double], [Double]) = ([], [])
      let clock = ContinuousClock()
      for round in 0..<rounds {
        var times: [Duration] = []
        var ticks: [Int] = []
        let runs: [(file: String, more: [String])] = [("plain", []), ("kept", ["--journal", "j\(round)"])]
        for run in runs {
          let start = clock.now
          let outcome = try await ToolBinary.run(["run", run.file, "-q", "-j1"] + run.more, in: directory)
          times.append(clock.now - start)
          ticks.append(try #require(Int(directory.read("ticks").dropLast())))
          #expect(outcome.status == 0)
        }
        ratios.append(Double(ticks[1]) / Double(max(ticks[0], 1)))
        wallRatios.append(times[1].inSeconds / times[0].inSeconds)
        print("\(count) times true: \(times[0]), processors \(ticks[0]) / 100 s; with a journal \(times[1]), \(ticks[1]) / 100 s")
      }
      #expect(try #require(ratios.min()) < (Sanitizer.isActive ? 5 : 2), "\(ratios)")
      #expect(try #require(wallRatios.min()) < (Sanitizer.isActive ? 10 : 3), "\(wallRatios)")
    }

    /// That of the first run. Nothing tells of the end of a process that isn't our child, so it is asked again and again.
    private func expectEndOfKeeper(in directory: TemporaryDirectory) throws {
      let keeper = try #require(try JournalReader.read(directory.path + "/j").runs[0].run.keeper)
      let deadline = ContinuousClock.now + .seconds(60)
      while keeper.isRunning, .now < deadline { usleep(1000) }
      #expect(!keeper.isRunning)
    }

    // MARK: Full disks

    @Test func aFullDiskStopsTheRunAndLosesNothing() async throws {
      let directory = try TemporaryDirectory()
      defer { directory.remove() }
      let count = 400
      try writeGraph(of: count, to: directory)
      // In blocks of 512 bytes; the signal for it is ignored.
      let line = "ulimit -f 340; exec \"$OWNEDOPS\" run graph.json --journal j -q -j4"
      let full = try await ToolBinary.shell(line, in: directory)
      #expect(full.status == 1)
      #expect(full.errors == "ownedops: the journal j can't be written: File too large; no more jobs are started\n")
      try await expectToGoOn(full, count, in: directory, log: "log")
    }

    @Test(.enabled(if: geteuid() == 0)) func aFullFileSystemStopsTheRunAndLosesNothing() async throws {
      let directory = try TemporaryDirectory()
      defer { directory.remove() }
      mkdir(directory.path + "/small", 0o755)
      guard try await mount("-t", "tmpfs", "-o", "size=224k", "none", directory.path + "/small") else {
        print("no file system can be mounted here; not tested")
        return
      }
      let count = 400
      try writeGraph(of: count, to: directory)
      let full = try await ToolBinary.run(["run", "graph.json", "--journal", "small/j", "-q", "-j4"], in: directory)
      #expect(full.status == 1)
      #expect(full.errors == "ownedops: the journal small/j can't be written: No space left on device; no more jobs are started\n")
      #expect(try await mount("-o", "remount,size=16m", directory.path + "/small"))
      let status = try await ToolBinary.run(["run", "graph.json", "--journal", "small/j", "-q", "-j4", "--resume"], in: directory)
      #expect(status.status == 0)
      #expect(!status.errors.contains("may have run already"))
      expectEachOnce(count, in: directory.read("log"))
      let end = try Child(["umount", "-l", directory.path + "/small"], in: directory)
      #expect(await end.status() == 0)
    }

    private func mount(_ arguments: String..., in directory: TemporaryDirectory? = nil) async throws -> Bool {
      let place = try TemporaryDirectory()
      defer { place.remove() }
      return try await Child(["mount"] + arguments, in: place).status() == 0
    }

    private func expectToGoOn(_ full: ToolBinary.Outcome, _ count: Int, in directory: TemporaryDirectory, log: String) async throws {
      let written = directory.read(log).split(separator: "\n").count
      #expect(written > 0 && written < count)
      // What ran is known to have run.
      let journal = try JournalReader.read(directory.path + "/j")
      #expect(journal.jobs.count { $0.hasSucceeded } == written)
      #expect(journal.tornLines.isEmpty)
      let second = try await run("--resume", "-q", "-j4", in: directory)
      #expect(second.status == 0)
      #expect(second.errors.isEmpty)
      expectEachOnce(count, in: directory.read(log))
    }
  }
#endif
