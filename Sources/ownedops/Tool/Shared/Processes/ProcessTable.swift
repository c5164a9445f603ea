import Foundation

/// The processes that the system shows. Empty where it shows none.
struct ProcessTable {
  /// A number alone may be another's later.
  struct Process: Hashable {
    let number: pid_t
    let birth: String
  }

  private struct Entry {
    let parent: pid_t
    let process: Process
  }

  private var entries: [pid_t: Entry] = [:]

  init() {
    for number in Self.numbers {
      guard let fields = ProcessFields(of: number), !fields.hasExited else { continue }
      entries[number] = Entry(parent: fields.parent, process: Process(number: number, birth: fields.birth))
    }
  }

  /// Children of a process, their children, and so on.
  /// - Parameter excluded: left out with all that comes from it.
  func descendants(of ancestor: pid_t, except excluded: Set<pid_t> = []) -> Set<Process> {
    var children: [pid_t: [Process]] = [:]
    for entry in entries.values where !excluded.contains(entry.process.number) { children[entry.parent, default: []].append(entry.process) }
    var found: Set<Process> = []
    var rest = [ancestor]
    while let last = rest.popLast() {
      for child in children[last] ?? [] where found.insert(child).inserted { rest.append(child.number) }
    }
    return found
  }
}

/// What the system tells of one process.
struct ProcessFields {
  let parent: pid_t
  /// When it began, in the system's own units.
  let birth: String
  /// Nobody has waited for it yet.
  let hasExited: Bool
}

/// A variable in the environment of everything that a run starts: it tells what comes from this run, wherever it has gone.
struct RunMark: Sendable {
  private static let variable = "OWNEDOPS_RUN"

  let text: String

  init(_ text: String) { self.text = text }

  /// A new one.
  init() { text = "\(getpid()).\(UInt32.random(in: 0 ... .max))" }

  /// To be called before the first command, which gets it with everything else of our environment.
  func setInEnvironment() { setenv(Self.variable, text, 1) }

  /// False for a process that has gone, or whose environment is empty or not ours to read.
  func isBorne(by process: pid_t) -> Bool { isBorneIfShown(by: process) == true }

  /// The same; nil for a process with an empty environment: it replaces itself, or ends, or has been given none.
  func isBorneIfShown(by process: pid_t) -> Bool? {
    guard let words = RawFile.contents(of: "/proc/\(process)/environ") else { return false }
    guard !words.isEmpty else { return nil }
    let needle = Array("\(Self.variable)=\(text)".utf8)
    return words.split(separator: 0).contains { $0.elementsEqual(needle) }
  }

  /// All that bear it, but for the caller.
  func bearers() -> [pid_t] { ProcessTable.numbers.filter { $0 != getpid() && isBorne(by: $0) } }

  /// Asks what bears it to end, and after the grace makes it, for want of somebody who knows better. Blocks until there has been none for
  /// a while. What is only there to serve the run goes by itself.
  /// - Parameters:
  ///   - groups: if given, nothing outside these process groups is touched.
  ///   - goesOn: asked in each round; false: no more is ended.
  func endBearers(grace: Duration, only groups: Set<pid_t>? = nil, goesOn: () -> Bool = { true }) {
    // One that is being started or replaces itself has no environment for a moment.
    var quietRounds = 0
    var ends = ForcedEnds<pid_t>()
    while quietRounds < 3, goesOn() {
      let left = bearers().filter { process in
        !Self.isServant(process) && groups?.contains(getpgid(process)) ?? true && !ends.hasGivenUp(process)
      }
      for process in left { ends.end(process, grace: grace) { ProcessGroup.signalProcess(process, $0) } }
      quietRounds = left.isEmpty ? quietRounds + 1 : 0
      usleep(10_000)
    }
  }

  private static func isServant(_ process: pid_t) -> Bool {
    guard let words = RawFile.contents(of: "/proc/\(process)/cmdline")?.split(separator: 0), words.count > 1 else { return false }
    return [ProcessGuard.command, OutputSink.command].contains(String(decoding: words[1], as: UTF8.self))
  }
}
