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
  /// The sizes of files that are compared, in bytes.
  var sizes = 1...Int.max
  var mostGroups = Int.max
  var workers = max(1, ProcessInfo.processInfo.activeProcessorCount)
  var listsEmptyFiles = false
  var isQuiet = false
  var isJSON = false
  /// Nothing but paths.
  var isPlain = false
  /// Paths end with NUL, not with a newline.
  var endsPathsWithNUL = false
  /// Files that were given by name, by the directory that stands in the name.
  var givenFiles: [(directory: [UInt8], names: [[UInt8]])] = []
  /// What was given on standard input and is not there.
  var missing: [Census.Problem] = []
  var compares = false
  var pictures = PictureOptions()

  static let syntax = CommandSyntax(
    name: "scan", operands: "[PATH ...]",
    summary:
      "Finds files with the same content, under directories or given by name (default: under the current directory); - reads paths from "
      + "standard input, one on each line.",
    options: [
      .init(names: ["--budget"], value: "TIME", help: "end the owners still at work after this time, such as 2s, and print what was found"),
      .init(
        names: ["--exclude", "-x"], value: "PATTERN",
        help: "leave out what matches, such as '*.o', 'build/' or 'src/*/gen'; may be repeated", mayRepeat: true),
      .init(names: ["--min-size"], value: "SIZE", help: "leave out smaller files; in bytes, or such as 10k, 1.5M, 2G, 64Ki"),
      .init(names: ["--max-size"], value: "SIZE", help: "leave out larger files"),
      .init(names: ["--one-file-system"], help: "stay on the file system of each DIR"),
      .init(names: ["--empty"], help: "list empty files, as a group of their own; otherwise they are only counted"),
      .init(names: ["--top"], value: "N", help: "print only the N groups from which most could be freed"),
      .init(names: ["--plain"], help: "print nothing but paths, as they are: one on each line, and an empty line after each group"),
      .init(names: ["--null", "-0"], help: "paths end with NUL, not with a newline: those read for -, and those printed; implies --plain"),
      .init(names: ["--json"], help: "print one JSON document; see Documentation/JSON.md"),
      .init(names: ["--quiet", "-q"], help: "no progress, no notes on what can't be read"),
      .init(names: ["--jobs", "-j"], value: "N", help: "jobs at a time (default: as many as there are processors)"),
      .init(
        names: ["--engine"], value: "NAME", help: "owned (default), operationqueue or gcd: the same work on another queue",
        choices: EngineName.allCases.map(\.rawValue)),
      .init(names: ["--compare"], help: "run all three engines, each in a process of its own, and print what each costs"),
    ] + PictureOptions.syntax,
    details: """
      Duplicates are compared byte by byte. Symbolic links are not followed; further hard links to a file are no duplicates, nor is a file that
      is given twice; special files are skipped; what can't be read is reported. Sizes count in 1,000 (k, M, G, T) or in 1,024 (Ki, Mi, Gi,
      Ti). With --plain names are the bytes of the file system; otherwise bytes that are not UTF-8 are shown as \\x..

      Ctrl-C ends the owners and prints what was found by then; once more ends at once.

      Exit status: 0 all was read; 1 output or pictures could not be written, or --compare found different answers; 2 bad input;
      3 the budget was used up; 4 something could not be read, and the rest was; 129, 130, 131, 143 ended by SIGHUP, SIGINT (Ctrl-C), SIGQUIT
      or SIGTERM.
      """,
    examples: [
      "ownedops scan ~/Pictures ~/Backup --exclude '*.tmp' --budget 10s",
      "find . -name '*.jpg' -size +10k -print0 | ownedops scan -0 - | grep -z . | xargs -0 ls -l",
      "ownedops scan . --compare",
    ], completion: .files)

  init() {}

  init(_ arguments: Arguments) throws(UsageError) {
    budget = try arguments.duration("--budget")
    for pattern in arguments.values["--exclude"] ?? [] { listing.exclusions.append(try Exclusion(pattern)) }
    listing.staysOnDevice = arguments.has("--one-file-system")
    if let name = try arguments.choice("--engine", among: EngineName.allCases.map(\.rawValue)), let known = EngineName(rawValue: name) {
      engine = known
    }
    let smallest = try arguments.size("--min-size") ?? 1
    let largest = try arguments.size("--max-size") ?? .max
    guard smallest <= largest else { throw UsageError("--max-size is less than --min-size: no file can be both") }
    sizes = max(1, smallest)...max(1, largest)
    mostGroups = try arguments.positiveInteger("--top") ?? .max
    workers = try arguments.positiveInteger("--jobs") ?? workers
    listsEmptyFiles = arguments.has("--empty")
    isQuiet = arguments.has("--quiet")
    isJSON = arguments.has("--json")
    compares = arguments.has("--compare")
    pictures = PictureOptions(arguments)
    endsPathsWithNUL = arguments.has("--null")
    isPlain = arguments.has("--plain") || endsPathsWithNUL && !isJSON
    let readsInput = arguments.operands.contains([UInt8(ascii: "-")])
    guard !(compares && arguments.has("--engine")) else { throw UsageError("--compare runs all engines; leave out --engine") }
    guard !(compares && (isJSON || isPlain)) else { throw UsageError("--compare prints a table; leave out --json, --plain and --null") }
    guard !(compares && readsInput) else { throw UsageError("--compare reads everything several times; give paths as arguments, not -") }
    guard !(isJSON && arguments.has("--plain")) else { throw UsageError("--json and --plain are two kinds of output; give one") }
    try addPaths(arguments)
  }

  // MARK: Paths

  private mutating func addPaths(_ arguments: Arguments) throws(UsageError) {
    var given = GivenPaths()
    for operand in arguments.operands.isEmpty ? [[UInt8(ascii: ".")]] : arguments.operands {
      guard operand == [UInt8(ascii: "-")] else {
        if let problem = given.add(operand) {
          throw UsageError("scan: can't read \(operand.escapedName): \(RawFile.message(problem.error))")
        }
        continue
      }
      guard let list = RawFile.contents(of: 0) else { throw UsageError("scan: can't read standard input: \(RawFile.message(errno))") }
      let end = endsPathsWithNUL ? 0 : UInt8(ascii: "\n")
      guard endsPathsWithNUL || !list.contains(0) else {
        throw UsageError("scan: the paths on standard input end with NUL; give --null (-0), too")
      }
      for path in list.split(separator: end) {
        // It may have gone since the list was made.
        if let problem = given.add(Array(path)) { missing.append(problem) }
      }
    }
    roots = given.directories
    listing.roots = given.identities
    givenFiles = given.files
    listing.mayMeetFilesTwice = !given.files.isEmpty
  }
}

/// Paths of the command line or of standard input: directories, each once, however often it is named, and files by directory.
private struct GivenPaths {
  private(set) var directories: [[UInt8]] = []
  private(set) var identities: Set<FileIdentity> = []
  private(set) var files: [(directory: [UInt8], names: [[UInt8]])] = []
  private var places: [[UInt8]: Int] = [:]

  /// - Returns: why not.
  mutating func add(_ path: [UInt8]) -> Census.Problem? {
    var status = stat()
    // A link to a directory is followed, one to a file is counted.
    guard path.withCString({ stat($0, &status) }) == 0 || path.withCString({ lstat($0, &status) }) == 0 else {
      return Census.Problem(path: path, error: errno)
    }
    if status.st_mode & S_IFMT == S_IFDIR {
      if identities.insert(FileIdentity(status)).inserted { directories.append(path) }
      return nil
    }
    let slash = path.lastIndex(of: UInt8(ascii: "/"))
    // With the slash: the root's name is one.
    let directory = slash.map { Array(path[...$0]) } ?? []
    let name = Array(path[(slash.map { $0 + 1 } ?? 0)...])
    if let place = places[directory] {
      files[place].names.append(name)
    } else {
      places[directory] = files.count
      files.append((directory, [name]))
    }
    return nil
  }
}
