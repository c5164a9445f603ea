import Foundation

/// What left its job's process group: a daemon, a session of its own. Where orphans become our children they are found at the end.
enum Orphans {
  /// Each round ends one generation. A process that can't even be killed, because it hangs in the kernel, is not waited for longer than this.
  private static let mostRounds = 1000
  private static let patience = DispatchTimeInterval.seconds(1)

  /// - Parameter kept: a child that stays.
  static func killAll(except kept: pid_t?) {
    #if os(Linux)
      // What is listed has not been reaped, so its exit is still to be announced: each is worth one wait. By then its children are ours.
      let exits = ChildReaper.shared.announceExits()
      for _ in 0..<mostRounds {
        let orphans = children().filter { $0 != kept }
        guard !orphans.isEmpty else { return }
        for orphan in orphans { kill(orphan, SIGKILL) }
        for _ in orphans {
          guard exits.wait(timeout: .now() + patience) == .success else { return }
        }
      }
    #endif
  }

  #if os(Linux)
    private static func children() -> [pid_t] {
      let tasks = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
      return tasks.flatMap { task -> [pid_t] in
        guard let bytes = RawFile.contents(of: "/proc/self/task/\(task)/children") else { return [] }
        return String(decoding: bytes, as: UTF8.self).split(separator: " ").compactMap { pid_t($0) }
      }
    }
  #endif
}
