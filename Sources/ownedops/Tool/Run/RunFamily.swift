/// Who is below whom, and whose the jobs are, for ends of owners. By place.
struct RunFamily: Sendable {
  /// Of each owner's own; empty where no owner ends by itself.
  let jobs: [[Int]]
  private let children: [[Int]]

  init(_ file: RunFile) {
    var jobs = Array(repeating: [Int](), count: file.owners.count)
    var children = jobs
    if file.owners.contains(where: { $0.end != nil }) {
      for (place, job) in file.jobs.enumerated() { if let owner = job.owner { jobs[owner].append(place) } }
      for (place, owner) in file.owners.enumerated() { if let parent = owner.parent { children[parent].append(place) } }
    }
    self.jobs = jobs
    self.children = children
  }

  /// The owner, and all below it.
  func below(_ owner: Int) -> [Int] {
    var found = [owner]
    var next = 0
    while next < found.count {
      found += children[found[next]]
      next += 1
    }
    return found
  }
}
