/// `--engine` and what belongs to it.
struct SlurmOptions: Sendable {
  var partition: String?
  var account: String?
  /// How many jobs may be with Slurm at a time, waiting or running.
  var window = 2000
  /// Submits what it can, and leaves.
  var detaches = false

  static let syntax: [CommandSyntax.Option] = [
    .init(
      names: ["--engine"], value: "NAME", help: "where jobs run: local (this machine, the default) or slurm (a cluster)",
      choices: ["local", "slurm"]),
    .init(names: ["--partition"], value: "NAME", help: "of Slurm, for jobs that name none"),
    .init(names: ["--account"], value: "NAME", help: "of Slurm, for jobs that name none"),
    .init(names: ["--window"], value: "N", help: "how many jobs may be with Slurm at a time, waiting or running (default: 2,000)"),
    .init(names: ["--detach"], help: "submit as many jobs as the window holds, and leave; see ownedops attach"),
  ]

  /// What is this machine's affair, or another command's.
  private static let local: [(option: String, advice: String)] = [
    ("--jobs", "Slurm decides how many run at a time; --window says how many it holds"),
    ("--memory", "Slurm knows what its nodes have"), ("--load", "Slurm knows its nodes"),
    ("--live", "logs grow on the shared directory; see --log-dir"), ("--keep-orphans", "Slurm clears what jobs leave behind"),
  ]

  /// Nil for this machine.
  init?(_ arguments: Arguments) throws(UsageError) {
    guard try arguments.choice("--engine", among: ["local", "slurm"]) == "slurm" else {
      for option in ["--partition", "--account", "--window", "--detach"] where arguments.has(option) {
        throw UsageError("\(option): only with --engine slurm")
      }
      return nil
    }
    for (option, advice) in Self.local where arguments.has(option) { throw UsageError("\(option): not with --engine slurm: \(advice)") }
    partition = try Self.word("--partition", arguments)
    account = try Self.word("--account", arguments)
    window = try arguments.positiveInteger("--window") ?? window
    detaches = arguments.has("--detach")
    for option in ["--results", "--timeline", "--trace"] where detaches && arguments.has(option) {
      throw UsageError("\(option): not with --detach, which leaves before it is known; give it to ownedops attach")
    }
    if detaches, arguments.text("--journal") == nil { throw UsageError("--detach: give --journal FILE, too, to attach to it later") }
  }

  init() {}

  private static func word(_ option: String, _ arguments: Arguments) throws(UsageError) -> String? {
    guard let text = arguments.text(option) else { return nil }
    guard !text.isEmpty else { throw UsageError("\(option): the name is empty") }
    return text
  }
}
