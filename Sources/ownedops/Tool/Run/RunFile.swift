import Foundation
import OwnedOperations

/// A graph of commands, read from JSON and found to be sound.
struct RunFile: Sendable {
  struct Owner: Sendable {
    let name: String
    var parent: Int?
    var mostConcurrent: Int?
    var end: EndCondition?
  }

  enum EndCondition: Sendable, Equatable {
    case process(pid_t)
    case fileRemoved(String)
    case after(Duration)
  }

  struct Job: Sendable {
    let name: String
    /// Nil: it belongs to the run itself.
    var owner: Int?
    var after: [Int] = []
    var command: ChildProcess.Command
    var priority = Operation.QueuePriority.normal
    var timeout: Duration?
    var retries = 0
  }

  let owners: [Owner]
  let jobs: [Job]

  /// Reads a file, or standard input for `-`.
  init(path: String) throws(UsageError) {
    let descriptor = path == "-" ? dup(0) : open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw UsageError("can't read \(path): \(RawFile.message(errno))") }
    let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    let data: Data
    do {
      data = try handle.readToEnd() ?? Data()
    } catch {
      throw UsageError("can't read \(path): it is a directory, or reading failed")
    }
    try self.init(data, source: path == "-" ? "standard input" : path)
  }

  /// - Parameter source: begins every complaint.
  init(_ data: Data, source: String) throws(UsageError) {
    do throws(UsageError) {
      var reader = RunFileReader()
      try reader.read(try Self.parse(data))
      owners = reader.owners
      jobs = reader.jobs
      try Self.checkForCycles(owners.map { $0.parent.map { [$0] } ?? [] }, names: owners.map(\.name), "owners are each other's parents")
      try Self.checkForCycles(jobs.map(\.after), names: jobs.map(\.name), "jobs wait for each other")
    } catch {
      throw UsageError("\(source): \(error)")
    }
  }

  private static func parse(_ data: Data) throws(UsageError) -> Any {
    guard data.contains(where: { !" \n\r\t".utf8.contains($0) }) else { throw UsageError("not JSON: there is nothing in it") }
    do {
      return try JSONSerialization.jsonObject(with: data, options: [.fragmentsAllowed])
    } catch {
      let detail = (error as NSError).userInfo[NSDebugDescriptionErrorKey] as? String
      throw UsageError("not JSON: \(placed(detail ?? error.localizedDescription, data))")
    }
  }

  /// Foundation counts characters on some platforms; people count lines.
  private static func placed(_ detail: String, _ data: Data) -> String {
    guard !detail.contains("line "), let range = detail.range(of: "around character "),
      let offset = Int(detail[range.upperBound...].prefix { $0.isNumber })
    else { return detail }
    let before = data.prefix(offset)
    let line = before.count { $0 == UInt8(ascii: "\n") } + 1
    let column = before.count - (before.lastIndex(of: UInt8(ascii: "\n")).map { $0 - before.startIndex + 1 } ?? 0) + 1
    return detail[..<range.lowerBound] + "at line \(line), column \(column)"
  }

  /// Names a circle, if there is one. Linear; goes deep without recursion.
  static func checkForCycles(_ edges: [[Int]], names: [String], _ what: String) throws(UsageError) {
    enum Mark { case unseen, open, done }
    var marks = Array(repeating: Mark.unseen, count: edges.count)
    for root in edges.indices where marks[root] == .unseen {
      var path: [(node: Int, next: Int)] = [(root, 0)]
      marks[root] = .open
      while let (node, next) = path.last {
        guard next < edges[node].count else {
          marks[node] = .done
          path.removeLast()
          continue
        }
        path[path.count - 1].next += 1
        let target = edges[node][next]
        switch marks[target] {
        case .done: continue
        case .unseen:
          marks[target] = .open
          path.append((target, 0))
        case .open:
          let start = path.firstIndex { $0.node == target } ?? 0
          let circle = path[start...].map { names[$0.node] } + [names[target]]
          let shown = circle.count > 12 ? circle.prefix(6) + ["..."] + circle.suffix(5) : circle[...]
          throw UsageError("\(what) in a circle: \(shown.joined(separator: " -> "))")
        }
      }
    }
  }
}
