/// What a cluster allows.
struct SlurmLimits: Sendable {
  /// Jobs of an array.
  var mostInArray = 1
  /// How long Slurm knows jobs that have ended.
  var memory = Duration.seconds(300)
  /// Jobs that one call of `scancel` names: arguments have to fit.
  var mostInScancel = 5000
  /// From one poll to the next.
  var longestPoll = Duration.seconds(20)

  /// Reads what `scontrol show config` says.
  init(_ text: String) {
    for line in text.split(separator: "\n") {
      guard let sign = line.firstIndex(of: "=") else { continue }
      let value = Int(line[line.index(after: sign)...].drop { $0 == " " }.prefix { $0.isASCII && $0.isNumber })
      switch (line[..<sign].filter { $0 != " " }, value) {
      // Indices are below it.
      case ("MaxArraySize", let value?): mostInArray = max(1, value - 1)
      // It takes a job that it has forgotten for one that has succeeded, so each is to be seen before: in seconds.
      case ("MinJobAge", let value?) where value > 0:
        memory = .seconds(value)
        longestPoll = min(longestPoll, .seconds(max(2, value / 4)))
      default: break
      }
    }
  }
}
