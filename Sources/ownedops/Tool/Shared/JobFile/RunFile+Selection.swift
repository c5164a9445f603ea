import Foundation
import OwnedOperations

extension RunFile {
  /// Some of the jobs, in the same order, with the dependencies between them. All owners stay.
  func keeping(_ isKept: (Int) -> Bool) -> RunFile {
    var places = Array(repeating: -1, count: jobs.count)
    var kept: [Job] = []
    for place in jobs.indices where isKept(place) {
      places[place] = kept.count
      kept.append(jobs[place])
    }
    for place in kept.indices { kept[place].after = kept[place].after.map { places[$0] }.filter { $0 >= 0 } }
    return RunFile(owners: owners, jobs: kept)
  }

  /// The places of jobs by their names.
  func places(of names: [String]) throws(UsageError) -> [Int] {
    var known: [String: Int] = [:]
    for (place, job) in jobs.enumerated() { known[job.name] = place }
    var places: [Int] = []
    for name in names {
      guard let place = known[name] else {
        throw UsageError("there is no job \"\(name)\"\(Suggestion.text(for: name, among: jobs.map(\.name)))")
      }
      places.append(place)
    }
    return places
  }

  /// Named jobs, and all that must come before them, by place.
  func selection(for names: [String]) throws(UsageError) -> [Bool] {
    var rest = try places(of: names)
    var isNeeded = Array(repeating: false, count: jobs.count)
    while let place = rest.popLast() {
      guard !isNeeded[place] else { continue }
      isNeeded[place] = true
      rest += jobs[place].after
    }
    return isNeeded
  }

  /// A job, and those that are so many edges away at most, in either direction.
  func around(_ name: String, depth: Int) throws(UsageError) -> RunFile {
    let start = try places(of: [name])
    var dependents = Array(repeating: [Int](), count: jobs.count)
    for (place, job) in jobs.enumerated() { for target in job.after { dependents[target].append(place) } }
    var isKept = Array(repeating: false, count: jobs.count)
    // Up and down apart: what else comes after what it comes after is no neighbour.
    for edges in [{ jobs[$0].after }, { dependents[$0] }] as [(Int) -> [Int]] {
      var seen = Set(start)
      var ring = start
      for _ in 0..<depth {
        ring = ring.flatMap(edges).filter { seen.insert($0).inserted }
        if ring.isEmpty { break }
      }
      for place in seen { isKept[place] = true }
    }
    return keeping { isKept[$0] }
  }

  /// Without owners of whom there is no job, nor of any below them.
  var keepingUsedOwners: RunFile {
    var isUsed = Array(repeating: false, count: owners.count)
    for job in jobs {
      var place = job.owner
      while let current = place, !isUsed[current] {
        isUsed[current] = true
        place = owners[current].parent
      }
    }
    var places = Array(repeating: 0, count: owners.count)
    var kept: [Owner] = []
    for place in owners.indices where isUsed[place] {
      places[place] = kept.count
      kept.append(owners[place])
    }
    for place in kept.indices { kept[place].parent = kept[place].parent.map { places[$0] } }
    var jobs = jobs
    for place in jobs.indices { jobs[place].owner = jobs[place].owner.map { places[$0] } }
    return RunFile(owners: kept, jobs: jobs)
  }
}
