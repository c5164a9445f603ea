import Foundation
import OwnedOperations

struct ScanOptions: Sendable {
  enum EngineName: String, CaseIterable, Sendable {
    case owned, operationqueue, gcd
  }

  var roots: [[UInt8]] = []
  var budget: Duration?
  var listing = Listing.Settings()
  var engine = EngineName.owned
  var smallestSize = 1
  var mostGroups = Int.max
  var workers = max(1, ProcessInfo.processInfo.activeProcessorCount)
  var listsEmptyFiles = false
  var isQuiet = false
  var isJSON = false
  var compares = false
  var pictures = PictureOptions()

  static let syntax = CommandSyntax(
    name: "scan", operands: "[DIR ...]", summary: "Finds files with the same content under directories (default: the current one).",
    options: [
      .init(names: ["--budget"], value: "TIME", help: "end the owners still at work after this time, such as 2s, and print what was found"),
      .init(
        names: ["--exclude", "-x"], value: "PATTERN",
        help: "leave out what matches, such as '*.o', 'build/' or 'src/*/gen'; may be repeated"),
      .init(names: ["--min-size"], value: "BYTES", help: "leave out smaller files"),
      .init(names: ["--one-file-system"], help: "stay on the file system of each DIR"),
      .init(names: ["--empty"], help: "list empty files, as a group of their own; otherwise they are only counted"),
      .init(names: ["--top"], value: "N", help: "print only the N groups from which most could be freed"),
      .init(names: ["--json"], help: "print one JSON document"),
      .init(names: ["--quiet", "-q"], help: "no progress, no notes on what can't be read"),
      .init(names: ["--jobs", "-j"], value: "N", help: "jobs at a time (default: as many as there are processors)"),
      .init(names: ["--engine"], value: "NAME", help: "owned (default), operationqueue or gcd: the same work on another queue"),
      .init(names: ["--compare"], help: "run all three engines, each in a process of its own, and print what each costs"),
      .init(names: ["--timeline"], value: "FILE", help: "draw an SVG picture of what ran when"),
      .init(names: ["--trace"], value: "FILE", help: "write Chrome trace events, for ui.perfetto.dev"),
    ],
    details: """
      Duplicates are compared byte by byte. Symbolic links are not followed; further hard links to a file are no duplicates; special files are
      skipped; what can't be read is reported. Names that are not UTF-8 are shown with \\x.. for each such byte.
      Ctrl-C prints what was found (exit status 130).
      """,
    examples: [
      "ownedops scan ~/Pictures ~/Backup --exclude '*.tmp' --budget 10s",
      "ownedops scan . --compare",
    ])

  init() {}

  init(_ arguments: Arguments) throws(UsageError) {
    roots = arguments.operands.isEmpty ? [[UInt8(ascii: ".")]] : arguments.operands
    budget = try arguments.duration("--budget")
    for pattern in arguments.values["--exclude"] ?? [] { listing.exclusions.append(try Exclusion(pattern)) }
    listing.staysOnDevice = arguments.has("--one-file-system")
    if let name = try arguments.choice("--engine", among: EngineName.allCases.map(\.rawValue)), let known = EngineName(rawValue: name) {
      engine = known
    }
    smallestSize = try arguments.positiveInteger("--min-size") ?? 1
    mostGroups = try arguments.positiveInteger("--top") ?? .max
    workers = try arguments.positiveInteger("--jobs") ?? workers
    listsEmptyFiles = arguments.has("--empty")
    isQuiet = arguments.has("--quiet")
    isJSON = arguments.has("--json")
    compares = arguments.has("--compare")
    pictures = PictureOptions(arguments)
    guard !(compares && arguments.has("--engine")) else { throw UsageError("--compare runs all engines; leave out --engine") }
    guard !(compares && isJSON) else { throw UsageError("--compare prints a table; leave out --json") }
    try checkRoots()
  }

  /// Each directory once, however often it is named.
  private mutating func checkRoots() throws(UsageError) {
    var distinct: [[UInt8]] = []
    for root in roots {
      var status = stat()
      guard root.withCString({ stat($0, &status) }) == 0 else {
        throw UsageError("scan: can't read \(root.escapedName): \(RawFile.message(errno))")
      }
      guard status.st_mode & S_IFMT == S_IFDIR else { throw UsageError("scan: \(root.escapedName) is not a directory") }
      if listing.roots.insert(FileIdentity(status)).inserted { distinct.append(root) }
    }
    roots = distinct
  }
}
