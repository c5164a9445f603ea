import Foundation
import Testing

@testable import OwnedOpsTool

/// `ownedops fetch` against a server.
@Suite(.enabled(if: FetchServer.isThere), .timeLimit(.minutes(2)))
struct FetchTests {
  private let server = FetchServer.shared!
  private let alphabetDigest = "71c480df93d6ae2f1efad1447c66c9525e316218cf51fc8d9ed832f2daf18b73"

  private func url(_ name: String, _ query: String = "") -> String { "\(server.base)/\(name)\(query.isEmpty ? "" : "?" + query)" }

  private func fetch(_ arguments: [String], in directory: TemporaryDirectory, input: String? = nil) async throws -> ToolBinary.Outcome {
    try await ToolBinary.run(["fetch"] + arguments, in: directory, input: input)
  }

  private func told(_ what: String, of id: String, in directory: TemporaryDirectory) async throws -> String {
    _ = try await fetch(["-q", "--overwrite", url("told", "tell=\(what)&of=\(id)"), "-o", "told"], in: directory)
    return directory.read("told")
  }

  private func tell(_ counter: String, of id: String, in directory: TemporaryDirectory) async throws -> Int {
    Int(try await told(counter, of: id, in: directory)) ?? -1
  }

  private func names(in directory: TemporaryDirectory) throws -> [String] {
    try FileManager.default.subpathsOfDirectory(atPath: directory.path).sorted()
  }

  @Test func filesAreNamedByTheirURLsAndTheListAndPutIntoTheDirectory() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let list = """
      # A comment.
      \(url("a.txt", "length=26"))
      \t sha256=\(alphabetDigest.uppercased())

      \(url("x/a.txt", "length=27"))\r
      \(url("one%20two.txt", "length=28"))
        out=below/here.txt
      \(url("", "length=29"))
      """
    let outcome = try await fetch(["-i", "-", "-d", "some/where", url("%2e%2e%2Fup", "length=30")], in: directory, input: list)
    #expect(outcome.status == 0 && outcome.errors.isEmpty, "\(outcome.errors)")
    #expect(outcome.output.contains("fetched some/where/a.1.txt (27 B"))
    #expect(outcome.output.contains("5 fetched (140 B in "))
    let files = try names(in: directory).filter { directory.read($0) != "" }
    #expect(
      files == [
        "some/where/%2e%2e%2Fup", "some/where/a.1.txt", "some/where/a.txt", "some/where/below/here.txt", "some/where/index.html",
      ])
    #expect(directory.read("some/where/below/here.txt") == FetchServer.content(28))
  }

  @Test func whatIsThereAlreadyIsKeptAndCheckedAndReplacedIfAsked() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("a", FetchServer.content(26))
    try directory.write("b", "mine")
    let list = "\(url("a", "id=kept"))\n  sha256=\(alphabetDigest)\n\(url("b", "id=kept"))"
    let kept = try await fetch(["-i", "-"], in: directory, input: list)
    #expect(kept.status == 0)
    #expect(kept.output == "0 fetched, 2 there already, 0 failed, 0 cancelled\n")
    #expect(try await tell("count", of: "kept", in: directory) == 0)
    let wrong = try await fetch(["-i", "-", "-q"], in: directory, input: list + "\n  checksum=sha-256=\(alphabetDigest)")
    #expect(wrong.status == 1)
    #expect(wrong.output.hasPrefix("failed b: \(url("b", "id=kept")): it is there already with the SHA-256 "))
    #expect(directory.read("b") == "mine")
    let replaced = try await fetch(["--overwrite", url("b", "length=5")], in: directory)
    #expect(replaced.status == 0 && directory.read("b") == "abcde")
  }

  @Test func aFileWithAnotherChecksumIsAFailureAndNotKept() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let outcome = try await fetch(
      ["-i", "-", "--retries", "0"], in: directory, input: "\(url("a", "length=25"))\n  sha256=\(alphabetDigest)\n")
    #expect(outcome.status == 1)
    #expect(outcome.output.contains("failed a: ") && outcome.output.contains("not \(alphabetDigest) as expected"))
    #expect(!directory.contains("a"))
  }

  @Test func aDirectoryInTheWayIsAFailure() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("a/b", "")
    let outcome = try await fetch([url("a"), "--overwrite"], in: directory)
    #expect(outcome.status == 1 && outcome.output.contains("there is a directory of that name"))
  }

  @Test func aLongListTakesLittleMemoryAndEndsAtOnce() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let list = (0..<20_000).map { url("f\($0)", "id=long&cuts=9&hang=1") }.joined(separator: "\n")
    let outcome = try await fetch(["-i", "-", "--budget=1s", "--json"], in: directory, input: list)
    #expect(outcome.status == 1)
    let json = try #require(try JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [String: Any])
    #expect((json["counts"] as? [String: Int])?["cancelled"] == 20_000)
    let memory = try #require((json["run"] as? [String: Any])?["peakMemory"] as? Int)
    #expect(memory < 200_000_000 || Sanitizer.isActive, "\(memory)")
  }

  @Test func failuresAreToldAndTheRestIsFetched() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let outcome = try await fetch(
      [url("missing", "status=404"), "http://127.0.0.1:1/refused", url("fine"), url("loop", "loop=1"), "--retries=0"],
      in: directory)
    #expect(outcome.status == 1)
    #expect(outcome.output.contains("failed missing: \(url("missing", "status=404")): the server answered with status 404\n"))
    #expect(outcome.output.contains("failed refused: http://127.0.0.1:1/refused: can't connect\n"))
    #expect(outcome.output.contains(": more than ten redirects\n") && outcome.output.contains("1 fetched"))
    #expect(outcome.output.contains("3 failed, 0 cancelled\n"))
    #expect(try names(in: directory).filter { directory.read($0) != "" } == ["fine"])
  }

  @Test func whatIsCutOffGoesOnInTheSameRunAndInTheNext() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let same = try await fetch([url("a", "id=cut-same&cuts=1&length=100000")], in: directory)
    #expect(same.status == 0)
    #expect(same.output.contains("fetched a (100.0 kB") && same.output.contains(", resumed)"))
    #expect(directory.read("a") == FetchServer.content(100_000))
    let path = url("b", "id=cut-next&cuts=1&length=100000")
    let first = try await fetch(["--retries", "0", path], in: directory)
    #expect(first.status == 1)
    #expect(first.output.contains("; 50.0 kB of it kept\n"), "\(first.output)")
    #expect(directory.contains("b.part") && !directory.contains("b"))
    let next = try await fetch([path], in: directory)
    #expect(next.status == 0 && next.output.contains("resumed"))
    #expect(directory.read("b") == FetchServer.content(100_000))
    #expect(!directory.contains("b.part") && !directory.contains("b.part.info"))
  }

  @Test(arguments: [SIGINT, SIGTERM]) func aSignalEndsTheOwnersAndLeavesPartsToGoOnWith(signal: Int32) async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let words = ["fetch", "-j1", url("a", "id=signal-\(signal)&cuts=1&hang=1&length=1000000"), url("never")]
    let child = try Child([ToolBinary.url.path] + words, in: directory, output: directory.path + "/out", errors: directory.path + "/err")
    // Long enough for what is there to be written down before the end, for which an exit waits a second only.
    try await directory.until("half of it is there") {
      FetchSession.size(of: directory.path + "/a.part") >= 500_000 && directory.contains("a.part.info")
    }
    kill(child.identifier, signal)
    #expect(await child.status() == 128 + signal)
    #expect(directory.read("out").contains("cancelled a; 500.0 kB of it kept\n"))
    #expect(
      directory.read("out").contains(
        "0 fetched, 0 failed, 2 cancelled\ninterrupted: the owners ended; the same command goes on with 1 part\n"))
    #expect(!directory.contains("never"))
    let next = try await ToolBinary.run(words, in: directory)
    #expect(next.status == 0 && next.output.contains("2 fetched") && next.output.contains("resumed"))
    #expect(directory.read("a") == FetchServer.content(1_000_000))
  }

  @Test func filesAreFetchedInTheOrderOfTheList() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let names = (0..<40).map { "f\($0)" }
    let outcome = try await fetch(["-j1"] + names.map { url($0, "id=order") }, in: directory)
    #expect(outcome.status == 0)
    // As the server was asked for them: lines may change places.
    #expect(try await told("order", of: "order", in: directory).split(separator: " ").map(String.init) == names)
  }

  @Test func aBudgetThatIsUsedUpEndsTheOwners() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let outcome = try await fetch(
      ["--budget", "300ms", "--json", "--timeline=t.svg", "--trace=t.json", url("a", "id=budget&cuts=9&hang=1&length=1000")], in: directory)
    #expect(outcome.status == 1)
    let json = try #require(try JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [String: Any])
    let files = try #require(json["files"] as? [[String: Any]])
    #expect(files.first?["outcome"] as? String == "cancelled" && files.first?["path"] as? String == "a")
    #expect((json["run"] as? [String: Any])?["endedBy"] as? String == "the budget of 0.30 s is used up")
    #expect(directory.read("t.svg").contains("owners ended"))
    #expect(directory.read("t.json").contains("127.0.0.1"))
  }

  @Test func aHostHasItsLimit() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let list = (0..<12).map { url("f\($0)", "id=limit&pause=0.05") }.joined(separator: "\n")
    let outcome = try await fetch(["-i", "-", "--per-host=2", "-q"], in: directory, input: list)
    #expect(outcome.status == 0 && outcome.output.isEmpty)
    #expect(try await tell("most", of: "limit", in: directory) <= 2)
    #expect(try await tell("count", of: "limit", in: directory) == 12)
    let single = try await fetch(
      ["-i", "-", "-j", "1", "-q", "--overwrite"], in: directory, input: list.replacingOccurrences(of: "limit", with: "single"))
    #expect(single.status == 0)
    #expect(try await tell("most", of: "single", in: directory) == 1)
  }

  /// None is answered before both hosts have two at once, though all files of the one come first in the list.
  @Test func eachOfTwoHostsHasItsLimitAndNeitherWaitsForTheOther() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let list = [(server.base, "one"), (server.other, "two")].flatMap { base, name in
      (0..<20).map { "\(base)/\(name)-\($0)?id=hosts-\(name)&with=hosts-one,hosts-two" }
    }
    let outcome = try await fetch(
      ["-i", "-", "--per-host=2", "-j", "8", "--retries=0", "-q"], in: directory, input: list.joined(separator: "\n"))
    #expect(outcome.status == 0 && outcome.output.isEmpty, "\(outcome.output)")
    for name in ["hosts-one", "hosts-two"] {
      #expect(try await tell("most", of: name, in: directory) == 2)
      #expect(try await tell("count", of: name, in: directory) == 20)
    }
  }

  @Test func theServersNameIsTakenIfAskedAndNothingIsReplaced() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("there", "mine")
    func query(_ header: String) -> String {
      "disposition=" + (header.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? "")
    }
    let outcome = try await fetch(
      [
        "--content-disposition", url("1", query("attachment; filename=\"named.txt\"")), url("2", query("attachment; filename=../../evil")),
        url("3", query("attachment; filename=there")), url("4", query("attachment; filename=.profile")),
      ], in: directory)
    #expect(outcome.status == 0)
    #expect(try names(in: directory) == ["3", "4", "evil", "named.txt", "there"])
    #expect(directory.read("there") == "mine")
  }

  @Test func whatTheServerHasNamedIsFetchedAgainAndReplacesNothingAsTheHelpSays() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let arguments = ["--content-disposition", url("1", "disposition=attachment%3B%20filename%3Dnamed.txt")]
    _ = try await fetch(arguments, in: directory)
    #expect(try names(in: directory) == ["named.txt"])
    try directory.write("named.txt", "mine")
    let again = try await fetch(arguments, in: directory)
    #expect(again.status == 0 && again.output.contains("fetched 1 "))
    #expect(try names(in: directory) == ["1", "named.txt"])
    #expect(directory.read("named.txt") == "mine")
    // And from then on it is there.
    let last = try await fetch(arguments, in: directory)
    #expect(last.status == 0 && last.output.contains("1 there already"))
    let help = FetchOptions.syntax.helpText.split(whereSeparator: \.isWhitespace).joined(separator: " ")
    #expect(help.contains("a file that was renamed is fetched again by the next run"))
  }

  @Test func headersAndCredentialsAreSentAndNoPasswordIsShown() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let address = url("h", "headers=1").replacingOccurrences(of: "://", with: "://user:secret@")
    let outcome = try await fetch(["-H", "X-One: two", address, "--json"], in: directory)
    #expect(outcome.status == 0 && !outcome.output.contains("secret"))
    let told = try #require(try JSONSerialization.jsonObject(with: Data(directory.read("h").utf8)) as? [String: String])
    #expect(told["x-one"] == "two" && told["user-agent"] == "ownedops/\(ToolVersion.current)")
    #expect(told["authorization"] == "Basic dXNlcjpzZWNyZXQ=")
  }

  @Test func noPasswordIsShownOfWhatFails() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    func signed(_ url: String) -> String { url.replacingOccurrences(of: "://", with: "://user:secret@") }
    let to = signed("http://127.0.0.1:1/away").utf8.map { String($0, radix: 16) }.joined()
    let list = [
      url("missing", "status=404"), "http://127.0.0.1:1/refused", url("loop", "loop=1"), url("fine"), url("away", "to=\(to)"),
      url("part", "id=no-password&cuts=9&length=1000"), "http://nowhere.invalid/a",
    ].map(signed).joined(separator: "\n")
    for format in [[], ["--json", "--overwrite"], ["--quiet", "--overwrite"]] {
      let outcome = try await fetch(
        ["-i", "-", "--retries=0", "--timeline=t.svg", "--trace=t.json"] + format, in: directory, input: list)
      #expect(outcome.status == 1)
      #expect(!(outcome.output + outcome.errors).contains("secret"), "\(outcome.output)")
    }
    // Nor in what is left of it: pictures, parts, and what is said of parts.
    let files = try names(in: directory)
    #expect(files.contains("t.svg") && files.contains("part.part.info"))
    for file in files { #expect(!directory.read(file).contains("secret"), "\(file)") }
  }

  @Test func theLineOfProgressHasNoPassword() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let address = url("a", "id=no-password-shown&cuts=1&hang=1&length=100000").replacingOccurrences(of: "://", with: "://user:secret@")
    let isInterrupted = Guarded(false)
    let (status, shown) = try await Terminal.run(["fetch", address], on: 2, in: directory) { shown, process in
      guard shown.contains("fetching: ") else { return }
      let isFirst = isInterrupted.withLock { isInterrupted in
        defer { isInterrupted = true }
        return !isInterrupted
      }
      if isFirst { kill(process, SIGINT) }
    }
    #expect(status == 130 && shown.contains("under way") && !shown.contains("secret"))
  }
}
