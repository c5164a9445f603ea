import Foundation

struct FetchOptions: Sendable {
  var entries: [FetchEntry] = []
  var directory = "."
  var jobs = 16
  var perHost = 6
  var retries = 4
  var timeout: Duration?
  var budget: Duration?
  var headers: [String: String] = [:]
  var overwrites = false
  var takesNamesOfServer = false
  var isQuiet = false
  var isJSON = false
  var pictures = PictureOptions()
  /// Lists, which no picture is to be written over.
  var lists: [String] = []

  static let syntax = CommandSyntax(
    name: "fetch", operands: "[URL ...]", summary: "Downloads files over HTTP, several at a time, and goes on with what was cut off.",
    options: [
      .init(names: ["--input-file", "-i"], value: "FILE", help: "also read URLs from a file, - for standard input; may be repeated"),
      .init(names: ["--dir", "-d"], value: "DIR", help: "where the files go; made if it is missing (default: the current one)"),
      .init(names: ["--out", "-o"], value: "FILE", help: "the file for the one URL that is given"),
      .init(names: ["--jobs", "-j"], value: "N", help: "downloads at a time (default: 16)"),
      .init(names: ["--per-host"], value: "N", help: "downloads at a time from one host (default: 6)"),
      .init(names: ["--retries"], value: "N", help: "further attempts after a failure that may pass (default: 4)"),
      .init(names: ["--timeout"], value: "TIME", help: "for each file, retries included (default: none, but 60s without a byte)"),
      .init(names: ["--budget"], value: "TIME", help: "end the owners after this time, such as 10m; the next run goes on"),
      .init(names: ["--header", "-H"], value: "LINE", help: "send this header, such as 'Accept: text/plain'; may be repeated"),
      .init(names: ["--overwrite"], help: "download what is there already, too, and replace it when the new file is whole"),
      .init(names: ["--content-disposition"], help: "rename files to what the server calls them"),
      .init(names: ["--json"], help: "print one JSON document"),
      .init(names: ["--quiet", "-q"], help: "show only what fails"),
    ] + PictureOptions.syntax,
    details: """
      A list has a URL in each line; indented lines below it say more of it, and # begins a comment:
        https://example.com/a.iso
          out=images/first.iso
          sha256=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08

      Every host is an owner. A file is NAME.part until it is whole; the same command goes on with it where the server says that its content
      is the same (a strong ETag). What is there already is kept, and its sha256 checked if there is one. Files of the same name are told
      apart by a number: a.iso, a.1.iso. A name never leads out of DIR.

      With --content-disposition a file that was renamed is fetched again by the next run: only the answer tells what it is called, and no
      record is left of earlier ones. It keeps the name in its URL then, and nothing is replaced. Use out= for what is fetched repeatedly.

      Ctrl-C ends the owners and leaves what has come; once more ends at once.

      Exit status: 0 all is there; 1 some failed or were cancelled, or output or pictures could not be written; 2 bad input, nothing was
      fetched; 129, 130, 131, 143 ended by SIGHUP, SIGINT (Ctrl-C), SIGQUIT or SIGTERM.
      """,
    examples: [
      "ownedops fetch https://example.com/a.iso https://example.org/b.iso -d images",
      "ownedops fetch -i list.txt --per-host 2 --budget 10m",
    ])

  init(_ arguments: Arguments) throws(UsageError) {
    directory = try Self.path(arguments, "--dir") ?? directory
    jobs = try arguments.positiveInteger("--jobs") ?? jobs
    perHost = try arguments.positiveInteger("--per-host") ?? perHost
    if let text = arguments.text("--retries") {
      guard let number = Int(text), number >= 0 else { throw UsageError("--retries: \"\(text)\" is not a whole number") }
      retries = min(number, 1_000_000)
    }
    timeout = try arguments.duration("--timeout")
    budget = try arguments.duration("--budget")
    overwrites = arguments.has("--overwrite")
    takesNamesOfServer = arguments.has("--content-disposition")
    isQuiet = arguments.has("--quiet")
    isJSON = arguments.has("--json")
    pictures = PictureOptions(arguments)
    for line in arguments.values["--header"] ?? [] { try addHeader(String(decoding: line, as: UTF8.self)) }
    for (place, operand) in arguments.operands.enumerated() {
      guard let url = String(validating: operand, as: UTF8.self) else { throw UsageError("fetch: \(operand.escapedName) is not a URL") }
      entries.append(FetchEntry(url: url, source: "URL \(place + 1)"))
    }
    if let list = arguments.values["--input-file"]?.filter({ $0 == Array("-".utf8) }), list.count > 1 {
      throw UsageError("--input-file: standard input can be read once")
    }
    for path in arguments.values["--input-file"] ?? [] {
      if path != Array("-".utf8) { lists.append(String(decoding: path, as: UTF8.self)) }
      entries += try FetchList.entries(inFile: path)
    }
    guard !entries.isEmpty else {
      let isListGiven = arguments.has("--input-file")
      throw UsageError(
        isListGiven ? "fetch: there is no URL in the list" : "fetch: give a URL, or a list with -i; see ownedops fetch --help")
    }
    if let out = try Self.path(arguments, "--out") {
      guard out != "-" else { throw UsageError("--out: fetch writes files; for standard output there is curl") }
      guard entries.count == 1 else { throw UsageError("--out names one file, and there are \(entries.count) URLs; use out= in a list") }
      entries[0].name = out
      entries[0].nameIsFree = true
    }
  }

  private static func path(_ arguments: Arguments, _ name: String) throws(UsageError) -> String? {
    guard let bytes = arguments.bytes(name) else { return nil }
    guard !bytes.isEmpty else { throw UsageError("\(name): the name is empty") }
    guard let text = String(validating: bytes, as: UTF8.self) else { throw UsageError("\(name): \(bytes.escapedName) is not UTF-8") }
    return text
  }

  private mutating func addHeader(_ line: String) throws(UsageError) {
    guard let colon = line.firstIndex(of: ":"), colon > line.startIndex else {
      throw UsageError("--header: \"\(line)\" is not a name, a colon and a value, such as 'Accept: text/plain'")
    }
    let name = String(line[..<colon])
    guard !["range", "if-range", "accept-encoding"].contains(name.lowercased()) else {
      throw UsageError("--header: fetch sends \(name) itself")
    }
    headers[name] = line[line.index(after: colon)...].trimmingCharacters(in: .whitespaces)
  }
}
