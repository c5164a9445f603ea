import Foundation
import Testing

@testable import OwnedOpsTool

/// What is made of the tables of options.
@Suite(.timeLimit(.minutes(1)))
struct ReferenceTests {
  private func has(_ program: String) -> Bool {
    (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").contains { access("\($0)/\(program)", X_OK) == 0 }
  }

  @Test func everyOptionStandsInTheReadmeTheHelpTheManualAndTheCompletions() throws {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    let readme = try String(contentsOf: root.appendingPathComponent("README.md"), encoding: .utf8)
    let manual = Manual(commands: Tool.commands, version: ToolVersion.current).roff
    let completions = Completion.Shell.allCases.map { ($0, Completion(commands: Tool.commands).script(for: $0)) }
    for command in Tool.commands {
      #expect(readme.contains("ownedops \(command.name)"), "\(command.name)")
      for option in command.options {
        let name = option.names[0]
        #expect(readme.contains(name), "\(command.name) \(name)")
        #expect(command.helpText.contains(name))
        #expect(manual.contains(Manual.escaped(name)))
        for (shell, script) in completions {
          #expect(script.contains(shell == .fish ? "-l \(name.dropFirst(2))" : name), "\(shell) \(name)")
        }
      }
    }
  }

  @Test func theManualIsReadWithoutComplaint() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("ownedops.1", try await ToolBinary.run(["man"], in: directory).output)
    guard has("groff") else { return }
    let outcome = try await ToolBinary.shell("groff -man -Tascii -ww -P-c ownedops.1 | col -bx", in: directory)
    #expect(outcome.errors == "")
    let words = outcome.output.split(whereSeparator: \.isWhitespace).joined(separator: " ")
    for text in [
      "OWNEDOPS(1)", "-j, --jobs N commands at a time", #"{ "owners": ["#, "find . -name '*.jpg'", #"shown as \x.."#, "COMPLETION",
    ] {
      #expect(words.contains(text), "\(text)")
    }
  }

  @Test func bashCompletesCommandsOptionsValuesAndFiles() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("some jobs.json", "")
    try directory.write("dir/x", "")
    try directory.write("c.bash", try await ToolBinary.run(["completion", "bash"], in: directory).output)
    guard has("bash") else { return }
    func completed(_ words: String...) async throws -> String {
      let line =
        "source ./c.bash; COMP_WORDS=(ownedops \(words.map { "'\($0)'" }.joined(separator: " "))); COMP_CWORD=\(words.count); _ownedops; "
      return try await ToolBinary.shell("bash -c \(ShellText.quoted(line + "echo \"${COMPREPLY[*]}\""))", in: directory).output
    }
    #expect(try await completed("s") == "scan status\n")
    #expect(try await completed("run", "--re") == "--results --resume\n")
    #expect(try await completed("scan", "--engine", "o") == "owned operationqueue\n")
    #expect(try await completed("graph", "-f", "") == "dot mermaid svg\n")
    #expect(try await completed("run", "--log-dir", "d") == "dir\n")
    #expect(try await completed("run", "--timeout") == "\n")
    #expect(try await completed("completion", "") == "bash zsh fish\n")
    #expect(try await completed("help", "g") == "graph\n")
    #expect(try await completed("run", "--grace", "") == "\n")
    #expect(try await completed("run", "some") == "some jobs.json\n")
    #expect(try await completed("run", "x", "some") == "some jobs.json\n")
  }

  @Test(arguments: ["bash", "zsh", "fish"]) func theShellReadsItsCompletion(_ shell: String) async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let outcome = try await ToolBinary.run(["completion", shell], in: directory)
    #expect(outcome.status == 0)
    try directory.write("script", outcome.output)
    guard has(shell) else { return }
    let read = try await ToolBinary.shell("\(shell) -n script", in: directory)
    #expect(read.status == 0 && read.errors == "", "\(read.errors)")
    if shell == "fish" {
      let line = "source script; complete -C 'ownedops run --re'; complete -C 'ownedops scan --engine g'; complete -C 'ownedops gr'"
      let completed = try await ToolBinary.shell("HOME=$PWD fish -c \(ShellText.quoted(line))", in: directory).output
      #expect(completed.contains("--results\twrite what has become of every job as JSON"))
      #expect(completed.contains("gcd"))
      #expect(completed.contains("graph\tDraws the graph of a file"))
    }
    if shell == "zsh" {
      // Loaded as a shell does it.
      let line = "autoload -Uz compinit; compinit -u -d ./dump; source ./script; print -r -- $_comps[ownedops]"
      let loaded = try await ToolBinary.shell("HOME=$PWD zsh -f -c \(ShellText.quoted(line))", in: directory)
      #expect(loaded.output == "_ownedops\n", "\(loaded.errors)")
    }
  }

  @Test func unknownShellsAreRefused() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let outcome = try await ToolBinary.run(["completion", "fihs"], in: directory)
    #expect(outcome.status == 2 && outcome.errors.contains("did you mean \"fish\"?"))
    #expect(try await ToolBinary.run(["completion"], in: directory).status == 2)
    #expect(try await ToolBinary.run(["man", "scan"], in: directory).status == 2)
  }
}
