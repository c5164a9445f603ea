import Dispatch
import Foundation

/// Ends owners whose process has exited, whose file has gone, or whose time has come.
final class OwnerWatch: Sendable {
  private struct Watched: Sendable {
    let isOver: @Sendable () -> Bool
    let end: @Sendable () -> Void
  }

  private let watched = Guarded<[Watched]>([])
  private let queue = DispatchQueue(label: "ownedops.watch", qos: .userInitiated)
  private static let shortestPause = Duration.milliseconds(20)

  /// - Returns: false if the condition holds already.
  func add(_ condition: RunFile.EndCondition, end: @escaping @Sendable () -> Void) -> Bool {
    let isOver: @Sendable () -> Bool
    switch condition {
    case .after(let time):
      guard time > .zero else { return false }
      queue.asyncAfter(deadline: .now() + time.inSeconds, execute: end)
      return true
    case .process(let process):
      let birth = ProcessFields(of: process)?.birth
      isOver = { Self.hasExited(process, bornAt: birth) }
    case .fileRemoved(let path):
      isOver = {
        var status = stat()
        return lstat(path, &status) != 0 && (errno == ENOENT || errno == ENOTDIR)
      }
    }
    guard !isOver() else { return false }
    watched.withLock { $0.append(Watched(isOver: isOver, end: end)) }
    return true
  }

  func start() {
    guard !watched.withLock({ $0.isEmpty }) else { return }
    queue.async { [weak self] in self?.look() }
  }

  private func look() {
    let start = ContinuousClock.now
    let over = watched.withLock { watched in
      var over: [Watched] = []
      watched.removeAll { entry in
        guard entry.isOver() else { return false }
        over.append(entry)
        return true
      }
      return over
    }
    let pause = Self.pause(after: ContinuousClock.now - start)
    for entry in over { entry.end() }
    guard !watched.withLock({ $0.isEmpty }) else { return }
    queue.asyncAfter(deadline: .now() + pause.inSeconds) { [weak self] in self?.look() }
  }

  /// To the next look. Thousands of processes and files take a while to be looked at, and that is to leave the processor to the jobs.
  static func pause(after look: Duration) -> Duration { max(shortestPause, look * 10) }

  /// - Parameter look: what the system tells of a process.
  static func hasExited(
    _ process: pid_t, bornAt birth: String?, seenBy look: (pid_t) -> ProcessFields? = { ProcessFields(of: $0) }
  ) -> Bool {
    func hasNoNumber() -> Bool { kill(process, 0) != 0 && errno == ESRCH }
    if hasNoNumber() { return true }
    // Nothing is told of a process that has gone just now. Or it can't be looked at: the system hides it, or has no descriptor to give.
    guard let fields = look(process) else { return hasNoNumber() }
    // Exited and not waited for; or another process with the number of the one that was meant.
    return fields.hasExited || birth != nil && birth != fields.birth
  }
}
