import Foundation
import Synchronization

@testable import OwnedOperations

final class TokenOwner: OperationOwner, Sendable {
  let lifetimeToken: OwnerLifetime.Token

  init(name: String? = nil, parent: OwnerLifetime? = nil) {
    lifetimeToken = OwnerLifetime.Token(name: name, parent: parent)
  }
}

/// What happened, in order, from any thread.
final class Journal<Entry: Sendable>: Sendable {
  private let lock = Lock()
  nonisolated(unsafe) private var written: [Entry] = []  // guarded by `lock`

  func write(_ entry: Entry) { lock.withLock { written.append(entry) } }
  var entries: [Entry] { lock.withLock { written } }
}

/// A value that any thread may read and write.
final class Mutexed<Value: Sendable>: Sendable {
  private let lock = Lock()
  nonisolated(unsafe) private var stored: Value  // guarded by `lock`

  init(_ value: Value) { stored = value }

  var value: Value {
    get { lock.withLock { stored } }
    set {
      var former = newValue
      lock.withLock { swap(&former, &stored) }  // the former value goes outside the lock
    }
  }
}

/// Counts, from any thread.
final class Counter: Sendable {
  private let count = Atomic<Int>(0)

  var value: Int { count.load(ordering: .acquiring) }
  func add(_ amount: Int = 1) { count.add(amount, ordering: .acquiringAndReleasing) }
}

/// Whether the tests run under a sanitizer, which is slow and keeps memory on purpose.
enum Sanitizer {
  static let isAddress = dlsym(nil, "__asan_init") != nil
  static let isThread = dlsym(nil, "__tsan_init") != nil
  static var isActive: Bool { isAddress || isThread }

  /// So many of what must not be walked by recursion, or in time that grows with the square; a tenth of them with a sanitizer: its frames
  /// are large and its time is long, so that a tenth shows as much.
  static func many(_ count: Int) -> Int { isActive ? count / 10 : count }
}

#if os(Linux)
  /// The memory of this process that is in use.
  func residentBytes() -> Int {
    let fields = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ") ?? []
    return fields.count > 1 ? (Int(fields[1]) ?? 0) * sysconf(Int32(_SC_PAGESIZE)) : 0
  }
#endif

/// Nanoseconds that each round of the body takes: the median of several runs.
func medianNanoseconds(runs: Int = 7, rounds: Int, _ body: (Int) -> Void) -> Double {
  let times = (0..<runs).map { _ in
    let start = DispatchTime.now().uptimeNanoseconds
    body(rounds)
    return Double(DispatchTime.now().uptimeNanoseconds - start) / Double(rounds)
  }
  return times.sorted()[runs / 2]
}
