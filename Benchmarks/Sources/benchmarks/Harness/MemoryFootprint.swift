import Foundation
import HeapStatistics

/// How much memory this process holds, in bytes.
struct MemoryFootprint: Codable {
  /// By malloc, headers of its blocks included; those who allocate otherwise are missing.
  var allocated: Double
  /// All pages that are in memory, whoever has asked for them.
  var resident: Double

  static func current() throws -> MemoryFootprint {
    let allocated = heap_bytes_in_use()
    guard allocated >= 0, let statistics = try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8),
      let pages = Double(statistics.split(separator: " ")[1])
    else { throw MissingRequirement(description: "memory is measured with /proc/self/statm and glibc's mallinfo2, which are missing") }
    return MemoryFootprint(allocated: Double(allocated), resident: pages * Double(sysconf(Int32(_SC_PAGESIZE))))
  }

  /// The growth since `before`, for each of `count` things.
  func growth(since before: MemoryFootprint, per count: Int) -> MemoryFootprint {
    MemoryFootprint(allocated: (allocated - before.allocated) / Double(count), resident: (resident - before.resident) / Double(count))
  }
}
