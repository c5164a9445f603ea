import Foundation
import Testing

@testable import OwnedOpsTool

/// What the cluster engine reads and writes, without a cluster.
@Suite(.timeLimit(.minutes(1)))
struct SlurmInputTests {
  @Test func optionsThatDoNotFitAreRefused() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("g", #"{"jobs":[{"name":"a","command":["true"]}]}"#)
    for (arguments, text) in [
      (["--partition", "p"], "--partition: only with --engine slurm"), (["--engine", "slurn"], "did you mean \"slurm\"?"),
      (["--engine", "slurm", "--jobs", "2"], "--jobs: not with --engine slurm"),
      (["--engine", "slurm", "--detach"], "--detach: give --journal FILE, too"),
      (["--engine", "slurm", "--load", "2"], "--load: not with --engine slurm"),
      (["--engine", "slurm", "--live"], "--live: not with --engine slurm"),
      (["--engine", "slurm", "--detach", "--journal", "j", "--results", "r"], "--results: not with --detach"),
      (["--engine", "slurm", "--detach", "--journal", "j", "--timeline", "t"], "--timeline: not with --detach"),
      (["--engine", "slurm", "--detach", "--journal", "j", "--trace", "t"], "--trace: not with --detach"),
      (["--engine", "slurm", "--window", "0"], "--window: \"0\" is not a whole number above 0"),
    ] {
      let outcome = try await ToolBinary.run(["run", "g"] + arguments, in: directory)
      #expect(outcome.status == 2 && outcome.errors.contains(text), "\(outcome.errors)")
    }
    let outcome = try await ToolBinary.run(["run", "g", "--engine", "slurm"], in: directory, environment: ["PATH": directory.path])
    #expect(outcome.status == 2 && outcome.errors.contains("no sbatch, squeue, scontrol, scancel on PATH"), "\(outcome.errors)")
    #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == ["g"])
  }

  @Test func rowsOfSqueueAreRead() {
    let text = """
      squeue: warning: something
      12_3|RUNNING|ownedops:1.2:7|a|None
      13|NODE_FAIL|ownedops:1.2:8|b|NodeDown
      14|PENDING|||Dependency, (x|y)
      """
    let table = SlurmRow.table(text)
    #expect(table.count == 3)
    #expect(table["12_3"]?.standing == .running && table["12_3"]?.comment == "ownedops:1.2:7")
    #expect(table["13"]?.standing == .over(.nodeLost) && table["14"]?.standing == .waiting)
  }

  @Test(arguments: [
    ("NODE_FAIL", "its node was lost on n1"), ("OUT_OF_MEMORY", "ended by Slurm on n1: out of memory"),
    ("TIMEOUT", "ended by Slurm on n1: its time limit was reached"), ("PREEMPTED", "ended by Slurm on n1: preempted"),
    ("CANCELLED", "cancelled by somebody else"), ("DEADLINE", "ended by Slurm on n1: its deadline was reached"),
  ]) func everyEndHasItsName(_ state: String, _ reason: String) {
    guard case .over(let end)? = SlurmRow("5|\(state)|c|n1|None")?.standing else {
      Issue.record("\(state) is no end")
      return
    }
    #expect(end.reason(nodes: "n1") == reason)
  }

  @Test func answersOfSbatchAreRead() {
    #expect(SlurmSession.identifier(in: "123\n") == "123" && SlurmSession.identifier(in: "sbatch: warning: x\n7;cluster\n") == "7")
    #expect(SlurmSession.identifier(in: "sbatch: error: no\n") == nil)
    #expect(SlurmPrograms.Answer(status: 1, text: "sbatch: error: Unable to contact slurm controller (connect failure)").isPassing)
    #expect(!SlurmPrograms.Answer(status: 1, text: "sbatch: error: invalid partition specified: x").isPassing)
    #expect(SlurmPrograms.Answer(status: nil, text: "").isPassing)
    let group = SlurmPrograms.Answer(status: 1, text: "sbatch: error: AssocGrpSubmitJobsLimit\nsbatch: error: Job violates policy")
    #expect(group.isPassing && group.isAboutTooMany)
    let munge = SlurmPrograms.Answer(status: 1, text: "sbatch: error: Batch job submission failed: Protocol authentication error")
    #expect(munge.isPassing && !munge.isAboutTooMany)
  }

  @Test func pathsAreNoPatterns() {
    #expect(SlurmPrograms.pattern("/a b/log") == "/a b/log" && SlurmPrograms.pattern("/100%j/%%") == "/100%%j/%%%%")
    #expect(SlurmPrograms.pattern(#"/a\b%j"#) == #"/a\\b%j"#)
  }

  @Test func tasksSurviveTheirWriting() throws {
    let task = SlurmTask(
      run: "1.2", job: "j\n\"", workingDirectory: "/a b", command: ["x", "", "new\nline", "é\u{1}"], directory: "d",
      environment: ["A": "b c"],
      timeout: .milliseconds(1500), retries: 2, grace: .seconds(5), logDirectory: "/l", ends: ["1.2.all", "0.0"], needs: ["3.1"],
      deadline: 1795200000.25,
      owner: "o")
    #expect(task.line.count { $0 == UInt8(ascii: "\n") } == 1)
    #expect(SlurmTask(task.line) == task)
  }

  /// Slurm has it by then, and after a power failure nobody else would know.
  @Test func aSubmissionHasReachedTheDiskBeforeItIsMade() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let seen = Guarded<[String]>([])
    var files = SlurmFiles(root: directory.path)
    files.synchronize = { _ in
      seen.withLock { $0.append(directory.read("submissions")) }
      return nil
    }
    try files.note(SlurmFiles.Submission(number: 7, mark: "1.1", jobs: ["a"]), attempts: [1])
    #expect(seen.withLock { $0.count == 1 && $0[0].contains("\"number\":7") })
    files.synchronize = { _ in EIO }
    #expect(throws: UsageError.self) { try files.note(SlurmFiles.Submission(number: 8, mark: "1.1", jobs: ["a"]), attempts: [1]) }
  }

  @Test(arguments: [(1, 1), (1 << 20, 1), (1 << 20 + 1, 2), (Int.max, 1 << 43)])
  func memoryIsRoundedUpHoweverMuchItIs(_ bytes: Int, _ megabytes: Int) throws {
    var job = RunFile.Job(name: "a", command: .init(words: ["x"]))
    job.memory = bytes
    let request = SlurmRequest(job, urgent: .normal, grace: .zero, dependencies: [])
    #expect(request.words(SlurmOptions()).contains("--mem=\(megabytes)M"))
  }

  /// To sbatch the name ends at the equals sign, whatever follows.
  @Test func anAccentHidesNoOptionOfTheEngines() {
    let graph = #"{"jobs":[{"name":"a","command":["x"],"slurm":["--output=\u0301x"]}]}"#
    let error = #expect(throws: UsageError.self) { try RunFile(Data(graph.utf8), source: "file") }
    #expect(error?.description.contains("\"--output\" is not for jobs to give") == true)
  }

  @Test func whatIsAskedOfSlurmIsWhatTheFileSays() throws {
    let file = try RunFile(
      Data(
        #"{"jobs":[{"name":"a","command":["x"],"priority":"high"},{"name":"b","command":["x"],"cpus":3,"memory":1048577,"timeout":"100s","gpus":1,"partition":"p","slurm":["--qos=q"],"when":"always"}]}"#
          .utf8), source: "file")
    var options = SlurmOptions()
    options.partition = "all"
    let requests = file.jobs.map { SlurmRequest($0, urgent: .high, grace: .seconds(5), dependencies: ["4", "5_1"]) }
    #expect(requests[0].words(options) == ["--nice=0", "--cpus-per-task=1", "--partition=all", "--dependency=afterok:4:5_1"])
    #expect(
      requests[1].words(options) == [
        "--nice=1000", "--cpus-per-task=3", "--mem=2M", "--time=4", "--gpus=1", "--partition=p", "--dependency=afterany:4:5_1", "--qos=q",
      ])
  }
}
