import Foundation

/// What left its job's process group: a daemon, a session of its own. Where orphans become our children they are found at the end.
enum Orphans {
  private static let mostRounds = 50

  /// - Parameter kept: a child that stays.
  static func killAll(except kept: pid_t?) {
    #if os(Linux)
      for _ in 0..<mostRounds {
        let orphans = children().filter { $0 != kept }
        guard !orphans.isEmpty else { return }
        for orphan in orphans { kill(orphan, SIGKILL) }
        // The reaper takes them; their children come to us next.
        usleep(2000)
      }
    #endif
  }

  #if os(Linux)
    private static func children() -> [pid_t] {
      let tasks = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
      return tasks.flatMap { task -> [pid_t] in
        guard let text = try? String(contentsOfFile: "/proc/self/task/\(task)/children", encoding: .utf8) else { return [] }
        return text.split(separator: " ").compactMap { pid_t($0) }
      }
    }
  #endif
}
