/// The keys of a job that only a cluster heeds. They are checked on every engine: the same file is to run on both.
enum ClusterRequestReader {
  static let keys = ["gpus", "partition", "account", "constraint", "slurm"]

  /// Options of `sbatch` that the engine gives itself, or with which there would be no job.
  private static let reserved = [
    "array", "chdir", "clusters", "comment", "dependency", "error", "export", "export-file", "help", "input", "job-name",
    "kill-on-invalid-dep", "no-requeue", "open-mode", "output", "parsable", "requeue", "test-only", "usage", "version", "wait", "wrap",
  ]

  /// Nil if the job says nothing of it.
  static func read(_ fields: JSONFields) throws(JSONFault) -> RunFile.ClusterRequest? {
    guard keys.contains(where: { fields[$0] != nil }) else { return nil }
    let gpus = try fields.integer("gpus")
    if let gpus, gpus < 1 { throw fields.error("\"gpus\" is \(gpus); it must be 1 or more", at: "gpus") }
    return RunFile.ClusterRequest(
      gpus: gpus, partition: try word("partition", fields), account: try word("account", fields),
      constraint: try word("constraint", fields),
      options: try options(fields))
  }

  private static func word(_ key: String, _ fields: JSONFields) throws(JSONFault) -> String? {
    guard let text = try fields.text(key) else { return nil }
    guard !text.isEmpty, !text.utf8.contains(0) else { throw fields.error("\"\(key)\" is empty or holds a NUL character", at: key) }
    return text
  }

  private static func options(_ fields: JSONFields) throws(JSONFault) -> [String] {
    let options = try fields.placedTexts("slurm") ?? []
    for (text, place) in options {
      func fault(_ what: String) -> JSONFault { JSONFault("\(fields.label): \"slurm\": \(what)", at: place) }
      guard text.utf8.starts(with: "--".utf8), text.utf8.count > 2, !text.utf8.contains(0) else {
        throw fault("\"\(text)\" is no long option of sbatch; write \"--name\" or \"--name=value\"")
      }
      // By code points, as sbatch reads it: a = is one, whatever accent follows.
      let name = String(text.unicodeScalars.dropFirst(2).prefix { $0 != "=" })
      // sbatch takes the beginning of a name for the name.
      if let own = reserved.first(where: { $0.hasPrefix(name) }) {
        throw fault("\"--\(own)\" is not for jobs to give: the engine does, or there would be no job")
      }
    }
    return options.map(\.text)
  }
}
