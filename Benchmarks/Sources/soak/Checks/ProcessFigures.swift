import Foundation
import HeapStatistics

/// What the process holds.
struct ProcessFigures {
  /// Bytes.
  var resident: Int
  /// Bytes that malloc has given out; negative where that can't be told.
  var heap: Int
  var threads: Int

  static var current: ProcessFigures {
    let fields = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ") ?? []
    let resident = fields.count > 1 ? (Int(fields[1]) ?? 0) * sysconf(Int32(_SC_PAGESIZE)) : 0
    return ProcessFigures(resident: resident, heap: Int(heap_bytes_in_use()), threads: threads.count)
  }

  /// The names of the threads that are there.
  static var threads: [String] {
    let all = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
    return all.map { id in
      let name = try? String(contentsOfFile: "/proc/self/task/\(id)/comm", encoding: .utf8)
      return name.map { String($0.dropLast()) } ?? "?"
    }
  }

  /// While nothing runs: what malloc keeps without anybody using it goes back to the system first, because how much that is depends on how
  /// much there was at once, at some time.
  static func atRest() -> ProcessFigures {
    heap_trim()
    return current
  }
}
