import Foundation
import Testing

@testable import OwnedOpsTool

/// What `ownedops fetch` makes of its input, before anything is sent.
@Suite(.timeLimit(.minutes(1)))
struct FetchInputTests {
  private func plan(_ words: [String]) throws -> FetchPlan {
    try FetchPlan(FetchOptions(Arguments(words.map { Array($0.utf8) }, syntax: FetchOptions.syntax)))
  }

  private func complaint(_ words: [String]) -> String {
    do {
      _ = try plan(words)
      return ""
    } catch { return "\(error)" }
  }

  @Test func namesComeFromTheLastPartOfThePath() throws {
    let cases = [
      ("http://h/a/b.iso?x=/y.z#f", "b.iso"), ("http://h", "index.html"), ("http://h/a/", "index.html"), ("http://h/a%20b", "a b"),
      ("http://h/%2e%2e", "%2e%2e"), ("http://h/a/..%2f..%2fpasswd", "..%2f..%2fpasswd"), ("http://h/%00", "%00"),
      ("http://h/%1b%5b2J", "%1b%5b2J"),
      ("http://h/%ff", "%ff"), ("http://h/%C3%A9", "é"), ("http://h/a%5Cb", "a\\b"),
    ]
    for (url, name) in cases { #expect(try plan([url]).items.map(\.path) == [name], "\(url)") }
    #expect(try plan(["http://h/a", "-d", "x/"]).items[0].path == "x/a")
    #expect(try plan(["http://h/a", "-d", "x", "-o", "../y"]).items[0].path == "x/../y")
    #expect(try plan(["http://h/a", "-d", "x", "-o", "/y"]).items[0].path == "/y")
  }

  @Test func equalNamesAreToldApart() throws {
    let words = [
      "http://h/a.tar", "http://i/a.tar", "http://h/a.1.tar", "http://j/a.tar.part", "http://h/.x", "http://i/.x", "http://h/a.tar",
    ]
    let plan = try plan(words)
    #expect(plan.items.map(\.path) == ["a.tar", "a.1.tar", "a.1.1.tar", "a.tar.1.part", ".x", ".x.1"])
    #expect(plan.repetitions == 1)
  }

  @Test func manyEqualNamesTakeLinearTime() throws {
    let plan = try plan((0..<5000).map { "http://h\($0)/index.html" })
    #expect(plan.items.last?.path == "index.4999.html")
  }

  @Test func aServersNameIsAPlainOne() {
    let cases: [(String, String?)] = [
      ("attachment; filename=\"a b.txt\"", "a b.txt"), ("attachment; filename=a.txt; x=y", "a.txt"), ("inline", nil),
      ("attachment; filename=\"x\"; filename*=UTF-8''na%C3%AFve.txt", "naïve.txt"), ("attachment; filename=\"../../etc/passwd\"", "passwd"),
      ("attachment; filename=\"C:\\dir\\b.txt\"", "b.txt"), ("attachment; filename=\"..\"", nil), ("attachment; filename=\".bashrc\"", nil),
      ("attachment; filename=\"a\\\"b\"", "a\"b"), ("attachment; filename=", nil), ("attachment; FileName = a.txt", "a.txt"),
      ("attachment; filename=\"a;b.txt\"", "a;b.txt"), ("attachment; filename=\"a\u{1b}b\"", nil), ("attachment; filename*=latin1''x", nil),
      ("attachment; filename=\"" + String(repeating: "x", count: 300) + "\"", nil),
    ]
    for (header, name) in cases { #expect(FetchName.name(inDisposition: header) == name, "\(header)") }
  }

  @Test func badInputIsRefusedWithItsPlace() {
    let digest = String(repeating: "a", count: 64)
    let cases: [(String, String)] = [
      ("ftp://h/a", "\"ftp://h/a\" is no URL that begins with http:// or https://"),
      ("example.com/a", "did you mean https://example.com/a?"), ("htp:/x", "did you mean http://x?"),
      ("htps://h/a", "did you mean https://h/a?"), ("http:/h/a", "did you mean http://h/a?"),
      ("htp:/user:secret@h/a", "\"htp:/…@h/a\" is no URL that begins with http:// or https://; did you mean http://…@h/a?"),
      ("user:secret@example.com/a", "did you mean https://…@example.com/a?"),
      ("http://user:secret@h/a b", "\"http://…@h/a b\" has a space"),
      ("http://user:secret@h:99999/", "\"http://h:99999/\" has the port 99999"), ("http://user:sec ret@h/", "\"http://…@h/\" has a space"),
      ("http://user:secret@h/\n http://user:secret@h/", "is not out=NAME"), ("http://user:secret@h/a\n out=../b", "leads out"),
      ("http://user:secret@h/" + String(repeating: "x", count: 300), "too long"),
      ("http://", "is no URL"), ("http://h/a b", "has a space in it; write %20"), ("http://user:secret@", "is no URL"),
      ("http://h:99999/", "ports are from 1 to 65535"), ("http://h:0/", "has the port 0"), ("  out=x", "line 1: there is no URL above"),
      ("http://h/a\thttp://i/a", "line 1: give one URL a line"),
      ("http://h/a\n out=../b", "line 1: out=../b leads out of the directory"), ("http://h/a\n out=/b", "leads out"),
      ("http://h/a\n out=b/", "leads out"),
      ("http://h/a\n sha256=12", "line 2: sha256=12 is not 64 hexadecimal digits"), ("http://h/a\n shasum=\(digest)", "unknown shasum"),
      ("http://h/a\n sha265=\(digest)", "did you mean \"sha256\"?"), ("http://h/a\n checksum=md5=1", "only sha-256= is known"),
      ("http://h/a\n out", "is not out=NAME"), ("http://h/a\n out=", "has no value"),
      ("http://h/a\n out=x\nhttp://h/b\n out=x", "line 3: x is the file of"),
      ("http://h/a\n sha256=\(digest)\nhttp://h/a\n sha256=\(digest.replacingOccurrences(of: "a", with: "b"))", "has another sha256 above"),
      ("http://h/" + String(repeating: "x", count: 300), "too long"),
    ]
    for (list, message) in cases {
      do {
        var options = try FetchOptions(Arguments([Array("http://unused/".utf8)], syntax: FetchOptions.syntax))
        options.entries = try FetchList.entries(in: Array(list.utf8), source: "list")
        _ = try FetchPlan(options)
        Issue.record("\(list) was accepted")
      } catch {
        #expect("\(error)".contains(message), "\(error)")
        #expect(!"\(error)".contains("secret"))
      }
    }
  }

  @Test func badOptionsAreRefused() {
    let cases: [([String], String)] = [
      ([], "give a URL, or a list"), (["http://h/a", "http://h/b", "-o", "x"], "--out names one file"),
      (["http://h/a", "-o", "-"], "curl"),
      (["http://h/a", "-o", "x/"], "is a directory"), (["http://h/a", "-H", "nonsense"], "is not a name, a colon and a value"),
      (["http://h/a", "-H", "Range: bytes=0-"], "sends Range itself"), (["http://h/a", "-H", "a b: c"], "header \"a b\""),
      (["http://h/a", "-H", "a: b\r\nc: d"], "line break"), (["http://h/a", "--retries", "-1"], "is not a whole number"),
      (["-i", "nowhere"], "can't read nowhere: No such file or directory"), (["-i", "/dev/null"], "there is no URL in the list"),
      (["http://h/a", "--per-host", "0"], "not a whole number above 0"), (["http://h/a", "-d", ""], "the name is empty"),
    ]
    for (words, message) in cases { #expect(complaint(words).contains(message), "\(words): \(complaint(words))") }
  }

  @Test func whyADirectoryCannotBeMadeIsToldWhateverWasCalledSince() async throws {
    do {
      try FileManager.default.createDirectory(atPath: "/dev/null/x", withIntermediateDirectories: true)
      Issue.record("it was made")
    } catch {
      errno = EINTR
      #expect(FetchCommand.reason(for: error) == "Not a directory")
    }
    #expect(FetchCommand.reason(for: CocoaError(.fileNoSuchFile)) == CocoaError(.fileNoSuchFile).localizedDescription)
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let outcome = try await ToolBinary.run(["fetch", "http://127.0.0.1:1/a", "-d", "/dev/null/x"], in: directory)
    #expect(outcome.status == 2 && outcome.errors.contains("can't make the directory /dev/null/x: Not a directory"), "\(outcome.errors)")
  }

  @Test func noPasswordIsShownWhereverAnAddressWasPutByMistake() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let address = "http://user:secret@127.0.0.1:1/a"
    let mistakes = [
      [address], ["fetch", "--jobs", address], ["fetch", address, "--dirr=\(address)"], ["fetch", address, "-H", ":\(address)"],
      ["fetch", address, "--timeout", address], ["fetch", address, "-d", "/dev/null/\(address)"], ["fetch", "-i", address],
      ["fetch", address, address.replacingOccurrences(of: "http", with: "htp")], ["help", address],
    ]
    for mistake in mistakes {
      let outcome = try await ToolBinary.run(mistake, in: directory)
      #expect(outcome.status == 2 && !outcome.errors.isEmpty, "\(mistake)")
      #expect(!(outcome.errors + outcome.output).contains("secret"), "\(outcome.errors)")
    }
  }

  @Test func everyURLIsItsHostsWhoeverItsUserIs() throws {
    let plan = try plan(["http://user:secret@Example.com/a", "http://example.com:8080/b#part"])
    #expect(plan.items.map(\.host) == ["example.com", "example.com:8080"])
    #expect(plan.items[0].request.headers["Authorization"] == "Basic dXNlcjpzZWNyZXQ=")
    #expect(!plan.items[0].shownURL.contains("secret") && plan.items[1].shownURL == "http://example.com:8080/b")
  }
}
