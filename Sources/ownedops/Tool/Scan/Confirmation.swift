import Foundation

/// Finds out which files of one size are the same, by reading them side by side, each byte of each once.
///
/// Rules:
/// - At most ``CandidateReader/mostAtOnce`` files are open. A class of files is divided as soon as pieces differ, and one that is alone is
///   read no further.
/// - If there are more files, each is hashed first, so that few that differ are read again and again.
/// - A file that can't be read any more is in no class.
struct Confirmation {
  let reader: CandidateReader
  let table: CandidateTable

  /// - Returns: the places of each group, or nil if the owner ended before it was clear.
  func groups(_ sizeClass: ScanPlan.SizeClass) -> [[Int]]? {
    var result: [[Int]] = []
    for places in Self.groupsByHead(sizeClass, table) {
      guard let classes = classes(places, 0..<sizeClass.size) else { return nil }
      for places in classes where places.count > 1 { result.append(places) }
    }
    return result
  }

  /// Those that begin in the same way.
  static func groupsByHead(_ sizeClass: ScanPlan.SizeClass, _ table: CandidateTable) -> [[Int]] {
    if sizeClass.places.count == 2 {
      let (first, last) = (sizeClass.places.lowerBound, sizeClass.places.upperBound - 1)
      guard let fingerprint = table.fingerprint(of: first), table.fingerprint(of: last) == fingerprint else { return [] }
      return [[first, last]]
    }
    var byHead: [UInt64: [Int]] = [:]
    for place in sizeClass.places {
      if let fingerprint = table.fingerprint(of: place) { byHead[fingerprint, default: []].append(place) }
    }
    return byHead.values.filter { $0.count > 1 }
  }

  /// Divides files by a part of their content.
  /// - Returns: all classes, also those of one file; nil if the owner ended.
  func classes(_ places: [Int], _ range: Range<Int>) -> [[Int]]? {
    guard places.count > CandidateReader.mostAtOnce else { return sideBySide(places, range) }
    // Their heads are equal, and they have nothing but heads: so are they, most likely.
    guard range.count > CandidateReader.headLength else { return compare(places, range) }
    var byContent: [UInt64: [Int]] = [:]
    for place in places {
      if let fingerprint = reader.fingerprint(of: place, range) { byContent[fingerprint, default: []].append(place) }
      guard !reader.shouldStop() else { return nil }
    }
    var result: [[Int]] = []
    for places in byContent.values {
      guard let classes = compare(places, range) else { return nil }
      result += classes
    }
    return result
  }

  /// Any number: some at a time, side by side with one of each class that there is. There is one class, unless hashes collide.
  private func compare(_ places: [Int], _ range: Range<Int>) -> [[Int]]? {
    let most = CandidateReader.mostAtOnce / 2
    var classes: [[Int]] = []
    var rest = places[...]
    while !rest.isEmpty {
      var fresh = Array(rest.prefix(most))
      rest = rest.dropFirst(most)
      var number = 0
      while number < classes.count, !fresh.isEmpty {
        let known = number..<min(number + most, classes.count)
        let representatives = known.map { classes[$0][0] }
        guard let found = sideBySide(representatives + fresh, range) else { return nil }
        var labels: [Int: Int] = [:]
        for (label, places) in found.enumerated() { for place in places { labels[place] = label } }
        if let gone = known.first(where: { labels[classes[$0][0]] == nil }) {
          // The next stands for the class, to which it was compared.
          classes[gone].removeFirst()
          if classes[gone].isEmpty { classes.remove(at: gone) }
          continue
        }
        for index in known {
          let label = labels[classes[index][0]]
          classes[index] += fresh.filter { labels[$0] == label }
        }
        let settled = Set(known.compactMap { labels[classes[$0][0]] })
        fresh.removeAll { place in labels[place].map { settled.contains($0) } ?? true }
        number = known.upperBound
      }
      guard !fresh.isEmpty else { continue }
      guard let found = sideBySide(fresh, range) else { return nil }
      classes += found
    }
    return classes
  }

  private struct OpenFile {
    let place: Int
    let descriptor: Int32
    let number: Int
  }

  /// So many as may be open.
  private func sideBySide(_ places: [Int], _ range: Range<Int>) -> [[Int]]? {
    var files: [OpenFile] = []
    defer { for file in files { close(file.descriptor) } }
    for place in places {
      guard !reader.shouldStop() else { return nil }
      if let descriptor = reader.open(place) { files.append(OpenFile(place: place, descriptor: descriptor, number: files.count)) }
    }
    let longest = CandidateReader.pieceLength(of: files.count)
    reader.prepare(pieces: files.count, of: min(range.count, longest))
    var classes = files.isEmpty ? [] : [files]
    var offset = range.lowerBound
    while offset < range.upperBound, classes.contains(where: { $0.count > 1 }) {
      guard !reader.shouldStop() else { return nil }
      let length = min(range.upperBound - offset, longest)
      var next: [[OpenFile]] = []
      for files in classes {
        if files.count > 1 { next += divided(files, length, offset) } else { next.append(files) }
      }
      classes = next
      offset += length
    }
    return classes.map { $0.map(\.place) }
  }

  private func divided(_ files: [OpenFile], _ length: Int, _ offset: Int) -> [[OpenFile]] {
    var classes: [(piece: UnsafeRawBufferPointer, files: [OpenFile])] = []
    for file in files {
      guard let piece = reader.read(length, at: offset, file.number, from: file.descriptor, file.place) else { continue }
      if let index = classes.firstIndex(where: { $0.piece.holdsTheSame(as: piece) }) {
        classes[index].files.append(file)
      } else {
        classes.append((piece, [file]))
      }
    }
    return classes.map(\.files)
  }
}

/// Large files of one size, which several jobs compare at a time, each a part of all of them.
///
/// Rules:
/// - `classes` holds files that have been equal in all parts that have been compared. Each part divides them further.
/// - A part compares what is in one class when it begins.
/// - A file that can't be read is told of once, and is in no class from then on.
final class PartedConfirmation: Sendable {
  private struct State {
    var classes: [[Int]]?
    var noted: Set<Int> = []
  }

  /// Files that are smaller are one job's affair.
  static let smallest = 64 << 20
  private static let smallestPart = 32 << 20

  let parts: [Range<Int>]
  private let sizeClass: ScanPlan.SizeClass
  private let state = Guarded(State())

  /// Nil if it is not worth it.
  init?(_ classes: ArraySlice<ScanPlan.SizeClass>, workers: Int) {
    guard classes.count == 1, let sizeClass = classes.first, sizeClass.size >= Self.smallest, workers > 1 else { return nil }
    self.sizeClass = sizeClass
    // More parts than workers: files that differ early leave some with nothing to do.
    let count = min(workers * 4, sizeClass.size / Self.smallestPart)
    let length = sizeClass.size / count
    parts = (0..<count).map { $0 * length..<($0 == count - 1 ? sizeClass.size : ($0 + 1) * length) }
  }

  /// Whether a file that can't be read has not been told of.
  func note(_ place: Int) -> Bool { state.withLock { $0.noted.insert(place).inserted } }

  /// Compares one part. An end of the owner leaves it as it is.
  func compare(_ part: Range<Int>, _ confirmation: Confirmation) {
    let current = state.withLock { state in
      if let classes = state.classes { return classes }
      let classes = Confirmation.groupsByHead(sizeClass, confirmation.table)
      state.classes = classes
      return classes
    }
    var labels: [Int: Int] = [:]
    var label = 0
    for places in current {
      guard let classes = confirmation.classes(places, part) else { return }
      for places in classes {
        for place in places { labels[place] = label }
        label += 1
      }
    }
    state.withLock { state in
      state.classes = state.classes?.flatMap { places in
        Dictionary(grouping: places.filter { labels[$0] != nil }, by: { labels[$0] ?? 0 }).values.filter { $0.count > 1 }
      }
    }
  }

  /// To be asked when all parts have been compared.
  var groups: [[Int]] { state.withLock { $0.classes ?? [] } }
}

extension UnsafeRawBufferPointer {
  /// Both have the same length.
  fileprivate func holdsTheSame(as other: UnsafeRawBufferPointer) -> Bool {
    guard let left = baseAddress, let right = other.baseAddress else { return count == other.count }
    return memcmp(left, right, count) == 0
  }
}
