/// Text for a terminal of so many columns.
struct NarrowText {
  let width: Int

  /// Lines that are too long are broken between words and go on below their own beginning.
  /// - Parameter hanging: where a line goes on, if that is not its own indentation.
  func wrapped(_ text: String, hanging: Int? = nil) -> String {
    guard width < .max else { return text }
    return text.split(separator: "\n", omittingEmptySubsequences: false).map { wrappedLine($0, hanging: hanging) }.joined(separator: "\n")
  }

  private func wrappedLine(_ line: Substring, hanging: Int?) -> String {
    guard line.count > width else { return String(line) }
    let indentation = line.prefix { $0 == " " }
    // Not so far to the right that nothing would fit there.
    let next = String(repeating: " ", count: min(hanging ?? indentation.count, max(0, width - 20)))
    var result = ""
    var current = String(indentation)
    var isEmpty = true
    var words = line.dropFirst(indentation.count)
    while !words.isEmpty {
      // With the spaces before it: columns stay columns.
      let gap = words.prefix { $0 == " " }
      let word = words.dropFirst(gap.count).prefix { $0 != " " }
      words = words.dropFirst(gap.count + word.count)
      if !isEmpty, current.count + gap.count + word.count > width {
        result += current + "\n"
        current = next + word
      } else {
        current += gap + word
      }
      isEmpty = false
    }
    return result + current
  }
}
