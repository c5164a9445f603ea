/// A named question, and how it is answered.
struct Benchmark {
  let name: String
  let summary: String
  let body: (Session) throws -> Void

  init(_ name: String, _ summary: String, _ body: @escaping (Session) throws -> Void) {
    self.name = name
    self.summary = summary
    self.body = body
  }

  /// What stands before the first dash: `P1` of `P1-jobs`.
  var label: Substring { name.prefix { $0 != "-" } }

  /// Those whose label is the text, or, if there are none, whose name contains it. Case doesn't matter.
  static func matching(_ text: String, among benchmarks: [Benchmark]) -> [Benchmark] {
    let text = text.lowercased()
    let labelled = benchmarks.filter { $0.label.lowercased() == text }
    return labelled.isEmpty ? benchmarks.filter { $0.name.lowercased().contains(text) } : labelled
  }
}
