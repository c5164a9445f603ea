import Foundation
import Testing

@testable import OwnedOpsTool

@Suite(.timeLimit(.minutes(1)))
struct CommandLineTests {
  private func run(_ arguments: String..., environment: [String: String] = [:]) async throws -> ToolBinary.Outcome {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    return try await ToolBinary.run(arguments, in: directory, environment: environment)
  }

  @Test func everyCommandHasHelpWithAnExample() async throws {
    for command in ["scan", "run", "graph", "status", "fetch"] {
      let outcome = try await run(command, "--help")
      #expect(outcome.status == 0)
      #expect(outcome.output.contains("Usage: ownedops \(command)"))
      #expect(outcome.output.contains("Example"))
      #expect(outcome.output.contains("\n  ownedops \(command) "))
    }
    #expect(try await run("--help").output.contains("Usage: ownedops <command>"))
    #expect(try await run("--version").output == "ownedops \(ToolVersion.current)\n")
    #expect(try await run().status == 2)
  }

  @Test func unknownWordsAreRefusedWithASuggestion() async throws {
    let cases: [([String], String)] = [
      (["scan", "--budgt", "2s"], "unknown option --budgt; did you mean \"--budget\"?"),
      (["scna"], "unknown command scna; did you mean \"scan\"?"),
      (["scan", "--engine", "gdc"], "did you mean \"gcd\"?"),
      (["scan", "--budget", "2"], "\"2\" is not a duration"),
      (["scan", "--budget"], "--budget needs a value"),
      (["scan", "--json=yes"], "--json takes no value"),
      (["scan", "--jobs", "0"], "not a whole number above 0"),
      (["scan", "nowhere"], "can't read nowhere: No such file or directory"),
      (["run"], "give one FILE"),
      (["run", "nowhere.json"], "can't read nowhere.json: No such file or directory"),
      (["graph", "-", "--format", "svgg"], "did you mean \"svg\"?"),
    ]
    for (arguments, message) in cases {
      let directory = try TemporaryDirectory()
      defer { directory.remove() }
      let outcome = try await ToolBinary.run(arguments, in: directory)
      #expect(outcome.status == 2, "\(arguments)")
      #expect(outcome.errors.contains(message), "\(outcome.errors)")
      #expect(outcome.output.isEmpty)
    }
  }

  @Test func aClosedStandardOutputIsAnErrorAndNoCrash() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    for number in 0..<3000 { try directory.write("\(number)", "x") }
    let closed = try await ToolBinary.shell("\"$OWNEDOPS\" scan -q >&-", in: directory)
    #expect(closed.status == 1)
    #expect(closed.errors.contains("can't write to standard output"))
    // A reader that leaves: nothing is said, and the signal doesn't kill.
    let pipe = try await ToolBinary.shell("{ \"$OWNEDOPS\" scan -q; echo $? >&2; } | head -n 1", in: directory)
    #expect(pipe.output == "3,000 files of 1 B, 3.0 kB too much\n")
    #expect(["0\n", "1\n"].contains(pipe.errors))
  }

  @Test func durationsHaveANumberAndAUnit() {
    #expect(Duration(text: "250ms") == .milliseconds(250))
    #expect(Duration(text: "30s") == .seconds(30))
    #expect(Duration(text: "1.5m") == .seconds(90))
    #expect(Duration(text: "2h") == .seconds(7200))
    for text in ["", "s", "5", "-1s", "1 s", "5d", "1e3s", "nan", "infs", "..s", "99999999999h"] {
      #expect(Duration(text: text) == nil, "\(text)")
    }
  }

  @Test func shortOptionsMayStandTogetherAndBeforeTheirValue() throws {
    func parsed(_ words: String...) throws -> Arguments { try Arguments(words.map { Array($0.utf8) }, syntax: RunOptions.syntax) }
    for words in [["-j4"], ["-j", "4"], ["-j=4"], ["--jobs=4"], ["--jobs", "4"], ["-qj4"], ["-qj", "4"], ["-kqj4"]] {
      let arguments = try Arguments((words + ["file"]).map { Array($0.utf8) }, syntax: RunOptions.syntax)
      #expect(arguments.text("--jobs") == "4", "\(words)")
      #expect(arguments.has("--quiet") == words[0].contains("q"), "\(words)")
      #expect(arguments.operands == [Array("file".utf8)])
    }
    #expect(try parsed("-qh").wantsHelp)
    #expect(try parsed("--", "-j4").operands == [Array("-j4".utf8)])
    #expect(try parsed("-").operands == [Array("-".utf8)])
    let pattern = try Arguments([Array("-x".utf8) + [0xff]], syntax: ScanOptions.syntax)
    #expect(pattern.bytes("--exclude") == [0xff])
    let wrong: [([String], String)] = [
      (["-qz4"], "run: unknown option -z in -qz4"), (["-jobs"], "\"obs\" is not a whole number"),
      (["-quiet"], "run: unknown option -u in -quiet; did you mean \"--quiet\"?"), (["-qj"], "run: -j needs a value: -j N"),
      (["-q=1"], "run: -q takes no value"), (["-é"], "run: unknown option -é;"),
    ]
    for (words, message) in wrong {
      #expect {
        _ = try RunOptions(Arguments((words + ["file"].filter { _ in words != ["-qj"] }).map { Array($0.utf8) }, syntax: RunOptions.syntax))
      } throws: { error in
        #expect("\(error)".contains(message), "\(error)")
        return true
      }
    }
  }

  @Test func controlCharactersAreEscapedInAllMessages() async throws {
    #expect("a\u{1b}[2J\n\u{85}\u{202e}é\\".controlsEscaped == #"a\x1b[2J\n\u{85}\u{202e}é\"#)
    #expect(Array("a\u{1b}\\\u{202e}".utf8).escapedName == #"a\x1b\\\u{202e}"#)
    let escape = "\u{1b}[2J"
    let json =
      #"{"owners":[{"name":"o\u001b"}],"jobs":[{"name":"a\u001b","owner":"o\u001b","command":["no\u001b"],"directory":"no\u001b"},"#
      + #"{"name":"b","after":["a\u001b"],"command":["true"]}]}"#
    let cases: [([String], String)] = [
      (["scan", escape], ""), ([escape], ""), (["run", "--" + escape, "x"], ""), (["run", escape], ""), (["run", "-j" + escape, "x"], ""),
      (["run", "-"], json), (["run", "-", "-k", "--grace", "1s"], json), (["graph", "-"], json), (["run", "-"], "{\"\(escape)\":1}"),
      (["run", "-"], #"{"jobs":[{"name":"x\u001b","commandx":["true"]}]}"#), (["run", "-", "--timeline", "\(escape)/x"], json),
      (["run", "-", "--log-dir", "/dev/null/\(escape)"], json), (["scan", "--exclude", "/" + escape, escape], ""),
    ]
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    for (arguments, input) in cases {
      let outcome = try await ToolBinary.run(arguments, in: directory, input: input)
      #expect(
        !(outcome.output + outcome.errors).unicodeScalars.contains { $0.value < 0x20 && $0 != "\n" || $0.value == 0x7f }, "\(arguments)")
    }
  }

  @Test func exitStatusesOfAScanAreInItsHelp() async throws {
    let help = try await run("scan", "--help").output
    for text in ["0 all was read", "3 the budget was used up", "4 something could not be read", "130"] { #expect(help.contains(text)) }
  }
}
