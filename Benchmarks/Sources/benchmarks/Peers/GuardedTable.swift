import Dispatch
import Foundation
import OwnedOperations
import Synchronization

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Darwin)
  import Darwin
#endif

/// A table of numbers that threads share, guarded in one way or another.
protocol GuardedTable: Sendable {
  static var name: String { get }
  init(_ table: Table)
  func read(_ index: Int, _ length: Int) -> Int
  func write(_ index: Int)
}

/// What is guarded. Reading takes about a nanosecond for each few elements.
struct Table: Sendable {
  static let size = 1024
  var numbers = [Int](repeating: 1, count: size)

  @inline(never)
  func sum(from index: Int, _ length: Int) -> Int {
    var sum = 0
    for place in index..<index + length { sum &+= numbers[place & (Self.size - 1)] }
    return sum
  }

  @inline(never)
  mutating func change(_ index: Int) { numbers[index & (Self.size - 1)] &+= 1 }
}

struct ProtectedTable: GuardedTable {
  static let name = "Protected"
  private let table: Protected<Table>
  init(_ table: Table) { self.table = Protected(table) }
  func read(_ index: Int, _ length: Int) -> Int { table.read { $0.sum(from: index, length) } }
  func write(_ index: Int) { table.write { $0.change(index) } }
}

final class LockedTable: GuardedTable, @unchecked Sendable {  // `table` is guarded by `lock`
  static let name = "NSLock"
  private let lock = NSLock()
  @exclusivity(unchecked) private var table: Table
  init(_ table: Table) { self.table = table }
  func read(_ index: Int, _ length: Int) -> Int { lock.withLock { table.sum(from: index, length) } }
  func write(_ index: Int) { lock.withLock { table.change(index) } }
}

final class MutexTable: GuardedTable {
  static let name = "Mutex"
  private let table: Mutex<Table>
  init(_ table: Table) { self.table = Mutex(table) }
  func read(_ index: Int, _ length: Int) -> Int { table.withLock { $0.sum(from: index, length) } }
  func write(_ index: Int) { table.withLock { $0.change(index) } }
}

final class ReadWriteLockTable: GuardedTable, @unchecked Sendable {  // `table` is guarded by `lock`
  static let name = "pthread_rwlock_t"
  private let lock = UnsafeMutablePointer<pthread_rwlock_t>.allocate(capacity: 1)
  @exclusivity(unchecked) private var table: Table

  init(_ table: Table) {
    self.table = table
    pthread_rwlock_init(lock, nil)
  }

  deinit {
    pthread_rwlock_destroy(lock)
    lock.deallocate()
  }

  func read(_ index: Int, _ length: Int) -> Int {
    pthread_rwlock_rdlock(lock)
    defer { pthread_rwlock_unlock(lock) }
    return table.sum(from: index, length)
  }

  func write(_ index: Int) {
    pthread_rwlock_wrlock(lock)
    table.change(index)
    pthread_rwlock_unlock(lock)
  }
}

final class DispatchTable: GuardedTable, @unchecked Sendable {  // `table` is used on `queue` only
  static let name = "GCD, barriers"
  private let queue = DispatchQueue(label: "table", attributes: .concurrent)
  @exclusivity(unchecked) private var table: Table
  init(_ table: Table) { self.table = table }
  func read(_ index: Int, _ length: Int) -> Int { queue.sync { table.sum(from: index, length) } }
  func write(_ index: Int) { queue.sync(flags: .barrier) { table.change(index) } }
}

actor ActorTable {
  static let name = "actor"
  private var table: Table
  init(_ table: Table) { self.table = table }
  func read(_ index: Int, _ length: Int) -> Int { table.sum(from: index, length) }
  func write(_ index: Int) { table.change(index) }
}

/// Which uses of a table are writes, and how long reads are.
struct TableUse: Sendable {
  /// Of a hundred uses.
  var writes: Int
  /// In elements.
  var length: Int
  var threads: Int
  /// By all threads together.
  var count: Int

  /// Writes lie spread among the reads.
  @inline(__always)
  func isWrite(_ round: Int) -> Bool { round &* 37 % 100 < writes }

  /// All threads use one table at the same time.
  func contender<Guarded: GuardedTable>(_ type: Guarded.Type) -> Contender {
    Contender(Guarded.name) {
      let table = Guarded(Table())
      let start = DispatchSemaphore(value: 0)
      let done = Countdown(from: threads)
      let rounds = count / threads
      for _ in 0..<threads {
        Thread.detachNewThread {
          start.wait()
          var sum = 0
          for round in 0..<rounds {
            if isWrite(round) { table.write(round) } else { sum &+= table.read(round, length) }
          }
          blackHole(sum)
          done.countDown()
        }
      }
      return nanoseconds(per: rounds * threads) {
        for _ in 0..<threads { start.signal() }
        done.wait()
      }
    }
  }

  /// As many tasks as there would be threads.
  func actorContender() -> Contender {
    Contender(ActorTable.name) {
      let table = ActorTable(Table())
      let done = Countdown(from: threads)
      let rounds = count / threads
      return nanoseconds(per: rounds * threads) {
        for _ in 0..<threads {
          Task.detached {
            var sum = 0
            for round in 0..<rounds {
              if isWrite(round) { await table.write(round) } else { sum &+= await table.read(round, length) }
            }
            blackHole(sum)
            done.countDown()
          }
        }
        done.wait()
      }
    }
  }
}
