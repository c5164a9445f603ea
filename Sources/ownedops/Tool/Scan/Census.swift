import Foundation

/// What the scan has met, from all threads.
final class Census: Sendable {
  struct Tally: Sendable, Codable, Equatable {
    var directories = 0
    var files = 0
    var bytes = 0
    var emptyFiles = 0
    /// Further names of files that have been counted under another.
    var hardLinks = 0
    var symbolicLinks = 0
    var specialFiles = 0
    var excluded = 0
    var unreadable = 0
    var vanished = 0
    /// Not what they had been when they were listed.
    var changed = 0
  }

  struct Problem: Sendable {
    let path: [UInt8]
    let error: Int32
  }

  private struct State {
    var tally = Tally()
    var problems: [Problem] = []
    var entered: Set<FileIdentity> = []
  }

  private let state = Guarded(State())
  /// So that a tree of which nothing can be read doesn't fill the memory.
  private static let longestProblemList = 1000

  var tally: Tally { state.withLock { $0.tally } }
  var problems: [Problem] { state.withLock { $0.problems } }

  func add(_ tally: Tally) {
    state.withLock { state in
      state.tally.directories += tally.directories
      state.tally.files += tally.files
      state.tally.bytes.addSaturating(tally.bytes)
      state.tally.emptyFiles += tally.emptyFiles
      state.tally.hardLinks += tally.hardLinks
      state.tally.symbolicLinks += tally.symbolicLinks
      state.tally.specialFiles += tally.specialFiles
      state.tally.excluded += tally.excluded
      state.tally.changed += tally.changed
    }
  }

  /// Whether the directory has not been entered before.
  func enter(_ identity: FileIdentity) -> Bool { state.withLock { $0.entered.insert(identity).inserted } }

  /// No more are entered.
  func forgetEntered() { state.withLock { $0.entered = [] } }

  func note(error: Int32, at path: [UInt8], isDirectory: Bool) {
    state.withLock { state in
      if error == ENOENT || error == ENOTDIR && isDirectory || error == ELOOP {
        // Gone, or something else by now.
        state.tally.vanished += 1
        return
      }
      state.tally.unreadable += 1
      if state.problems.count < Self.longestProblemList { state.problems.append(Problem(path: path, error: error)) }
    }
  }
}
