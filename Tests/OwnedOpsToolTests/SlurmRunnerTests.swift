import Foundation
import Testing

@testable import OwnedOpsTool

/// What becomes of jobs on a cluster when their runner goes, and another comes.
@Suite(.timeLimit(.minutes(3)))
struct SlurmRunnerTests {
  // MARK: What Slurm starts late

  /// The files of its run were removed, and another has begun in their place, with the same numbers.
  @Test func aJobOfARunThatIsNoMoreDoesNothing() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let files = SlurmFiles(root: directory.path + "/j.slurm")
    try files.create()
    try files.makeRoom(for: 0)
    let task = SlurmTrial.task("a", of: "2.2", files, ["touch", directory.path + "/touched"])
    try SlurmFiles.write(task.line, to: files.tasks(0))
    let old = try await ToolBinary.run([SlurmWrapper.command, files.root, "0", "1.1", ""], in: directory)
    #expect(old.status == 1 && old.errors.contains("is another run's by now"), "\(old.errors)")
    #expect(files.status(of: "0.0") == nil && !directory.contains("touched"))
    let new = try await ToolBinary.run([SlurmWrapper.command, files.root, "0", "2.2", ""], in: directory)
    #expect(new.status == 0 && directory.contains("touched"), "\(new.errors)")
  }

  /// `"slurm": ["--requeue"]`, and its node was wanted for something else.
  @Test func whatSlurmEndedToRunItAgainRunsAgain() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let files = SlurmFiles(root: directory.path + "/j.slurm")
    try files.create()
    try files.makeRoom(for: 0)
    let task = SlurmTrial.task("a", of: "2.2", files, ["sh", "-c", "echo + >> \(directory.path)/tries"])
    try SlurmFiles.write(task.line, to: files.tasks(0))
    func end(_ result: String) throws {
      let document = "{\"jobs\":[{\"name\":\"a\",\(result),\"attempts\":[]}]}\n"
      try SlurmFiles.write(Array(document.utf8) + SlurmStatus.line("ended"), to: files.status(0, 0))
    }
    for (result, tries) in [
      (#""result":"failed","reason":"exit status 1""#, 0), (#""result":"succeeded""#, 0),
      (#""result":"cancelled","reason":"interrupted""#, 1),
    ] {
      try end(result)
      _ = try await ToolBinary.run([SlurmWrapper.command, files.root, "0", "2.2", ""], in: directory)
      #expect(directory.lines("tries").count == tries)
    }
    #expect(files.status(of: "0.0")?.course == .ended(.succeeded))
  }
}
