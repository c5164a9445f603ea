import Foundation
import OwnedOperations

/// Which files share their size, who reads what, and what must come before what. Made when everything has been listed.
struct ScanPlan {
  /// Files of one size: places in `candidates`.
  struct SizeClass {
    let size: Int
    let places: Range<Int>
  }

  /// Sizes that one job compares the files of: one, or several as long as there is little to compare.
  struct Comparison {
    let classes: Range<Int>
    let places: Range<Int>
    let largest: Int
    /// What must come before it, in `batches`.
    let batches: Range<Int>

    static let mostFiles = 4096
    static let mostBytes = 8 << 20
  }

  /// Files of one comparison, neighbours in the tree, that one job fingerprints.
  struct Batch {
    /// The nearest directory that holds all of them.
    let owner: DirectoryNode
    let places: [Int32]
    let largest: Int

    static let mostFiles = 64
    /// From so many on, files of another directory right below the root are left to the next batch.
    static let fewestOfATop = 8
  }

  /// Directories that one job adds up: a root, or some right below one, with all that is below them.
  struct Summary {
    let owner: DirectoryNode
    /// In `nodes`; of a root, itself alone.
    let nodes: Range<Int>
    /// Places of the summaries that must come before.
    let parts: Range<Int>

    static let fewestDirectories = 256
  }

  /// Each directory before those below it.
  let nodes: [DirectoryNode]
  private(set) var candidates: CandidateTable
  private(set) var classes: [SizeClass] = []
  private(set) var comparisons: [Comparison] = []
  private(set) var batches: [Batch] = []
  private(set) var summaries: [Summary] = []
  /// By directory.
  private(set) var summaryOfNode: [Int32] = []
  /// One for each file, whatever its number of names, if they were asked for.
  private(set) var emptyFiles: [Candidate] = []
  /// Names that stand for a file with another name.
  private(set) var extraLinks = Census.Tally()

  private struct Entry {
    let size: Int64
    let directory: Int32
    let file: Int32
  }

  /// n log n in the files.
  init(roots: [DirectoryNode], sizes: ClosedRange<Int>, keepsEmptyFiles: Bool) {
    candidates = CandidateTable([], of: [])
    nodes = Self.inOrder(roots)
    var entries = Self.entries(nodes, sizes: sizes, keepsEmptyFiles: keepsEmptyFiles)
    entries.sort { ($1.size, $0.directory, $0.file) < ($0.size, $1.directory, $1.file) }

    var found: [CandidateTable.Place] = []
    // Once, and no more than there can be. What stays unused is no memory.
    found.reserveCapacity(entries.count)
    var start = 0
    while start < entries.count {
      var end = start + 1
      while end < entries.count, entries[end].size == entries[start].size { end += 1 }
      let size = Int(entries[start].size)
      if end - start > 1 || size == 0 {
        let members = withoutExtraLinks(entries[start..<end])
        if size == 0 {
          emptyFiles = members.map(candidate)
        } else if members.count > 1, sizes.contains(size) {
          classes.append(SizeClass(size: size, places: found.count..<(found.count + members.count)))
          for member in members { found.append(CandidateTable.Place(directory: member.directory, file: member.file)) }
        }
      }
      start = end
    }
    entries = []
    candidates = CandidateTable(found, of: nodes)
    found = []
    makeComparisons()
    makeSummaries()
  }

  private static func inOrder(_ roots: [DirectoryNode]) -> [DirectoryNode] {
    var nodes: [DirectoryNode] = []
    var rest = Array(roots.reversed())
    while let node = rest.popLast() {
      node.index = nodes.count
      nodes.append(node)
      rest += node.subdirectories.reversed()
    }
    return nodes
  }

  /// Of files that may have duplicates. All are counted.
  private static func entries(_ nodes: [DirectoryNode], sizes: ClosedRange<Int>, keepsEmptyFiles: Bool) -> [Entry] {
    var entries: [Entry] = []
    entries.reserveCapacity(nodes.reduce(0) { $0 + $1.files.count })
    for (place, node) in nodes.enumerated() {
      for (index, file) in node.files.enumerated() {
        node.totals.files += 1
        node.totals.bytes.addSaturating(Int(file.size))
        // Hard links are told from files of other sizes, too: what is counted does not depend on the limits.
        guard file.isLinked || (file.size == 0 ? keepsEmptyFiles : sizes.contains(Int(file.size))) else { continue }
        entries.append(Entry(size: file.size, directory: Int32(place), file: Int32(index)))
      }
    }
    return entries
  }

  private func candidate(_ entry: Entry) -> Candidate {
    let node = nodes[Int(entry.directory)]
    return Candidate(directory: node, file: node.files[Int(entry.file)])
  }

  private mutating func withoutExtraLinks(_ members: ArraySlice<Entry>) -> [Entry] {
    func isLinked(_ entry: Entry) -> Bool { nodes[Int(entry.directory)].files[Int(entry.file)].isLinked }
    guard members.contains(where: isLinked) else { return Array(members) }
    var result: [Entry] = []
    var places: [FileIdentity: Int] = [:]
    for member in members {
      let candidate = candidate(member)
      guard candidate.file.isLinked else {
        result.append(member)
        continue
      }
      let identity = candidate.directory.identity(of: candidate.file)
      guard let place = places[identity] else {
        places[identity] = result.count
        result.append(member)
        continue
      }
      // The first name in order stands for the file, whichever was listed first.
      let isEarlier = candidate.path.lexicographicallyPrecedes(self.candidate(result[place]).path)
      let extra = isEarlier ? self.candidate(result[place]) : candidate
      if isEarlier { result[place] = member }
      extra.directory.totals.files -= 1
      extra.directory.totals.bytes.addSaturating(-Int(extra.file.size))
      extraLinks.hardLinks += 1
      extraLinks.files -= 1
      extraLinks.bytes.addSaturating(-Int(extra.file.size))
      if extra.file.size == 0 { extraLinks.emptyFiles -= 1 }
    }
    return result
  }

  private mutating func makeComparisons() {
    var first = 0
    var files = 0
    var bytes = 0
    for (index, sizeClass) in classes.enumerated() {
      files += sizeClass.places.count
      bytes += sizeClass.places.count * min(sizeClass.size, Comparison.mostBytes)
      let isLast = index + 1 == classes.count
      guard isLast || files >= Comparison.mostFiles || bytes >= Comparison.mostBytes else { continue }
      let places = classes[first].places.lowerBound..<sizeClass.places.upperBound
      let firstBatch = batches.count
      addBatches(places, largest: classes[first].size)
      comparisons.append(
        Comparison(classes: first..<index + 1, places: places, largest: classes[first].size, batches: firstBatch..<batches.count))
      first = index + 1
      files = 0
      bytes = 0
    }
  }

  private mutating func addBatches(_ places: Range<Int>, largest: Int) {
    let sorted = candidates.sorted(places)
    var batch: [Int32] = []
    var owner: DirectoryNode?
    func finish(_ batches: inout [Batch]) {
      if let owner, !batch.isEmpty { batches.append(Batch(owner: owner, places: batch, largest: largest)) }
      batch = []
      owner = nil
    }
    for place in sorted {
      let directory = candidates.directory(of: place)
      if let current = owner {
        let common = current.commonAncestor(with: directory)
        let leavesTop = batch.count >= Batch.fewestOfATop && common.map { $0.isRoot && !current.isRoot } ?? true
        if common == nil || leavesTop || batch.count == Batch.mostFiles {
          finish(&batches)
          owner = directory
        } else {
          owner = common
        }
      } else {
        owner = directory
      }
      batch.append(Int32(place))
    }
    finish(&batches)
  }

  /// The nearest directory that holds all files of the comparison; where they are below several roots, one that holds the first.
  func owner(of comparison: Comparison) -> DirectoryNode {
    let first = batches[comparison.batches.lowerBound].owner
    return batches[comparison.batches].dropFirst().reduce(first) { $0.commonAncestor(with: $1.owner) ?? $0 }
  }

  private mutating func makeSummaries() {
    summaryOfNode = Array(repeating: 0, count: nodes.count)
    var place = 0
    while place < nodes.count {
      let root = place
      let firstPart = summaries.count
      var start = place + 1
      place += 1
      while place < nodes.count, !nodes[place].isRoot {
        let isEnd = place + 1 == nodes.count || nodes[place + 1].depth <= 1
        if isEnd, place + 1 - start >= Summary.fewestDirectories || place + 1 == nodes.count || nodes[place + 1].isRoot {
          addSummary(start..<place + 1, root: nodes[root])
          start = place + 1
        }
        place += 1
      }
      summaryOfNode[root] = Int32(summaries.count)
      summaries.append(Summary(owner: nodes[root], nodes: root..<root + 1, parts: firstPart..<summaries.count))
    }
  }

  private mutating func addSummary(_ range: Range<Int>, root: DirectoryNode) {
    for node in range { summaryOfNode[node] = Int32(summaries.count) }
    let last = nodes[range.upperBound - 1]
    let isOneTop = nodes[range.lowerBound].top === last.top
    summaries.append(Summary(owner: isOneTop ? last.top : root, nodes: range, parts: 0..<0))
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
