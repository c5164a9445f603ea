/// The header of an answer 206 or 416: `bytes 5-9/10`, `bytes 5-9/*`, `bytes */10`.
struct ContentRange: Equatable {
  /// Nil in an answer 416.
  var start: Int64?
  /// Nil if the server doesn't know it.
  var total: Int64?

  init?(_ value: String?) {
    guard let value else { return nil }
    let words = value.split(separator: " ", omittingEmptySubsequences: true)
    guard words.count == 2, words[0].lowercased() == "bytes" else { return nil }
    let halves = words[1].split(separator: "/", omittingEmptySubsequences: false)
    guard halves.count == 2 else { return nil }
    total = Int64(halves[1])
    guard total.map({ $0 >= 0 }) ?? (halves[1] == "*") else { return nil }
    guard halves[0] != "*" else { return }
    let bounds = halves[0].split(separator: "-", omittingEmptySubsequences: false).compactMap { Int64($0) }
    guard bounds.count == 2, bounds[0] >= 0, bounds[0] <= bounds[1] else { return nil }
    start = bounds[0]
  }
}
