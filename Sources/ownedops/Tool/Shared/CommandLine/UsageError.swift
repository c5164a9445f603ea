import OwnedRequests

/// What the user has to put right. The text says what was wrong and what to do.
struct UsageError: Error, Equatable, CustomStringConvertible {
  let description: String

  /// - Parameter description: what is wrong. Users and passwords in addresses that it quotes are left out: it may be kept in a log.
  init(_ description: String) { self.description = AddressText.withoutUsers(in: description) }
}

/// The name meant by a name that does not exist.
enum Suggestion {
  /// For example `; did you mean "owner"?`, or nothing if no candidate is near.
  static func text(for word: String, among candidates: [String]) -> String {
    guard let best = nearest(to: word, among: candidates) else { return "" }
    return "; did you mean \"\(best)\"?"
  }

  /// The candidate with the fewest edits, if they are few for the length of the word. Linear in the candidates.
  static func nearest(to word: String, among candidates: [String]) -> String? {
    let limit = max(1, min(3, word.count / 3 + 1))
    var best: (word: String, distance: Int)?
    for candidate in candidates {
      guard abs(candidate.utf8.count - word.utf8.count) <= limit else { continue }
      let distance = editDistance(word.lowercased(), candidate.lowercased())
      if distance <= limit, distance < (best?.distance ?? .max) { best = (candidate, distance) }
    }
    return best?.word ?? candidates.first { !word.isEmpty && word.count >= 3 && $0.hasPrefix(word) }
  }

  /// Insertions, deletions, replacements, and exchanges of neighbours.
  static func editDistance(_ left: String, _ right: String) -> Int {
    let left = Array(left.utf8)
    let right = Array(right.utf8)
    var beforeLast: [Int] = []
    var last = Array(0...right.count)
    for i in 0..<left.count {
      var row = [i + 1]
      for j in 0..<right.count {
        var distance = min(row[j] + 1, last[j + 1] + 1, last[j] + (left[i] == right[j] ? 0 : 1))
        if i > 0, j > 0, left[i] == right[j - 1], left[i - 1] == right[j] { distance = min(distance, beforeLast[j - 1] + 1) }
        row.append(distance)
      }
      beforeLast = last
      last = row
    }
    return last[right.count]
  }
}
