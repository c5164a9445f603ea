import Foundation

/// Files with the same content, in the order of their paths.
struct DuplicateGroup: Sendable {
  let size: Int
  let files: [Member]

  struct Member: Sendable {
    let directory: DirectoryNode
    let name: [UInt8]
    var path: [UInt8] { directory.path(of: name) }
  }

  /// What would be free if one were left.
  var excess: Int { size * (files.count - 1) }
}

/// Finds out which files of one size are the same.
struct Confirmation {
  let reader: CandidateReader

  /// - Returns: the places of each group, or nil if the owner ended before it was clear.
  func groups(in table: CandidateTable, _ sizeClass: ScanPlan.SizeClass) -> [[Int]]? {
    var byHead: [UInt64: [Int]] = [:]
    for place in sizeClass.places {
      if let fingerprint = table[place].fingerprint { byHead[fingerprint, default: []].append(place) }
    }
    var result: [[Int]] = []
    for places in byHead.values where places.count > 1 {
      // Comparing every file with the first is reading that one again and again, and many times more if they are different after all.
      if places.count > 2, sizeClass.size > CandidateReader.headLength {
        guard let byContent = divide(places, table) else { return nil }
        for places in byContent where places.count > 1 {
          guard let groups = compare(places, table) else { return nil }
          result += groups
        }
      } else {
        guard let groups = compare(places, table) else { return nil }
        result += groups
      }
    }
    return result
  }

  private func divide(_ places: [Int], _ table: CandidateTable) -> [[Int]]? {
    var byContent: [UInt64: [Int]] = [:]
    for place in places {
      switch reader.fullFingerprint(of: table[place]) {
      case .value(let fingerprint): byContent[fingerprint, default: []].append(place)
      case .unreadable: break
      case .stopped: return nil
      }
    }
    return Array(byContent.values)
  }

  /// Each against the first of every group there is; that is one, unless hashes collide.
  private func compare(_ places: [Int], _ table: CandidateTable) -> [[Int]]? {
    var groups: [[Int]] = []
    for place in places {
      var isSettled = false
      var group = 0
      while group < groups.count, !isSettled {
        switch reader.compare(table[groups[group][0]], table[place]) {
        case .stopped: return nil
        case .unreadable: isSettled = true
        case .value(.different): group += 1
        case .value(.equal):
          groups[group].append(place)
          isSettled = true
        case .value(.leftUnreadable):
          // The first has gone; the next stands for the group, to which it was compared.
          groups[group].removeFirst()
          if groups[group].isEmpty { groups.remove(at: group) }
        }
      }
      if !isSettled { groups.append([place]) }
    }
    return groups.filter { $0.count > 1 }
  }
}
