import Foundation
import OwnedOperations

/// Which files share their size, who reads what, and what must come before what. Made when everything has been listed.
struct ScanPlan {
  /// Files of one size: places in `candidates`.
  struct SizeClass {
    let size: Int
    let places: Range<Int>
  }

  /// Sizes that one job compares the files of: one, or several as long as there is little to compare. Every job has to follow the fingerprints of all its
  /// files, and small files would make more of these edges than there are files.
  struct Comparison {
    let classes: Range<Int>
    let places: Range<Int>
    let largest: Int

    static let mostFiles = 4096
    static let mostBytes = 8 << 20
  }

  /// Files of one directory that one job fingerprints.
  struct Batch {
    let directory: DirectoryNode
    var places: [Int] = []
    let largest: Int

    static let mostFiles = 64
  }

  private(set) var candidates: CandidateTable
  private(set) var classes: [SizeClass] = []
  private(set) var comparisons: [Comparison] = []
  private(set) var batches: [Batch] = []
  /// By place.
  private(set) var batchOfCandidate: [Int32] = []
  /// One for each file, whatever its number of names, if they were asked for.
  private(set) var emptyFiles: [(directory: DirectoryNode, file: DirectoryNode.File)] = []
  /// Names that stand for a file with another name.
  private(set) var extraLinks = Census.Tally()

  private struct Entry {
    let size: Int64
    let directory: Int32
    let file: Int32
  }

  /// n log n in the files.
  init(_ nodes: [DirectoryNode], smallest: Int, keepsEmptyFiles: Bool) {
    var entries: [Entry] = []
    entries.reserveCapacity(nodes.reduce(0) { $0 + $1.files.count })
    for (place, node) in nodes.enumerated() {
      node.index = place
      for (index, file) in node.files.enumerated() {
        entries.append(Entry(size: file.size, directory: Int32(place), file: Int32(index)))
        node.totals.files += 1
        node.totals.bytes += Int(file.size)
      }
    }
    entries.sort { $0.size > $1.size }

    var found: [Candidate] = []
    var start = 0
    while start < entries.count {
      var end = start + 1
      while end < entries.count, entries[end].size == entries[start].size { end += 1 }
      let size = Int(entries[start].size)
      if end - start > 1 || size == 0 && keepsEmptyFiles {
        let members = Self.withoutExtraLinks(
          entries[start..<end].map { Candidate(directory: nodes[Int($0.directory)], file: nodes[Int($0.directory)].files[Int($0.file)]) },
          &extraLinks)
        if size == 0 {
          if keepsEmptyFiles { emptyFiles = members.map { ($0.directory, $0.file) } }
        } else if members.count > 1, size >= smallest {
          classes.append(SizeClass(size: size, places: found.count..<(found.count + members.count)))
          found += members
        }
      }
      start = end
    }
    candidates = CandidateTable(found)
    makeBatches(found)
    makeComparisons()
  }

  private static func withoutExtraLinks(_ members: [Candidate], _ tally: inout Census.Tally) -> [Candidate] {
    guard members.contains(where: \.file.isLinked) else { return members }
    var result: [Candidate] = []
    var places: [FileIdentity: Int] = [:]
    for member in members {
      guard member.file.isLinked, let place = places[member.file.identity] else {
        places[member.file.identity] = result.count
        result.append(member)
        continue
      }
      // The first name in order stands for the file, whichever was listed first.
      let isEarlier = member.path.lexicographicallyPrecedes(result[place].path)
      let extra = isEarlier ? result[place] : member
      if isEarlier { result[place] = member }
      extra.directory.totals.files -= 1
      extra.directory.totals.bytes -= Int(extra.file.size)
      tally.hardLinks += 1
      tally.files -= 1
      tally.bytes -= Int(extra.file.size)
      if extra.file.size == 0 { tally.emptyFiles -= 1 }
    }
    return result
  }

  /// Candidates come biggest first, and so do the batches.
  private mutating func makeBatches(_ found: [Candidate]) {
    var open: [Int: Int] = [:]
    batchOfCandidate.reserveCapacity(found.count)
    for (place, candidate) in found.enumerated() {
      let key = candidate.directory.index
      if let batch = open[key], batches[batch].places.count < Batch.mostFiles {
        batches[batch].places.append(place)
        batchOfCandidate.append(Int32(batch))
      } else {
        open[key] = batches.count
        batchOfCandidate.append(Int32(batches.count))
        batches.append(Batch(directory: candidate.directory, places: [place], largest: Int(candidate.file.size)))
      }
    }
  }

  private mutating func makeComparisons() {
    var first = 0
    var files = 0
    var bytes = 0
    for (index, sizeClass) in classes.enumerated() {
      files += sizeClass.places.count
      bytes += sizeClass.places.count * sizeClass.size
      let isLast = index + 1 == classes.count
      guard isLast || files >= Comparison.mostFiles || bytes >= Comparison.mostBytes else { continue }
      comparisons.append(
        Comparison(
          classes: first..<index + 1, places: classes[first].places.lowerBound..<sizeClass.places.upperBound, largest: classes[first].size))
      first = index + 1
      files = 0
      bytes = 0
    }
  }

  static func priority(ofSize size: Int) -> Operation.QueuePriority {
    switch size {
    case (64 << 20)...: .veryHigh
    case (1 << 20)...: .high
    case (64 << 10)...: .normal
    case (4 << 10)...: .low
    default: .veryLow
    }
  }
}
