import Foundation  // and with it the C library
import Synchronization

/// Many readers, or one writer. Readers on different processors don't write to the same cache line.
///
/// ## Protocol
///
/// - Each reader counts itself in the shard of its thread. There are a few shards, each in a cache line of its own.
/// - `announced` and `ended` count writers. A writer adds to the first before it waits for anything, and to the second when it is done.
/// - `ended == announced`: nobody writes or waits to. `ended` is loaded first, so that a stale pair is never equal by mistake.
/// - A reader counts itself in, then looks at the two. If they are equal it is in. If not, it counts itself out again and waits.
/// - A writer announces itself, takes `writing`, then waits until every shard is zero. New readers see it announced and don't stay.
/// - These four steps are sequentially consistent: either the reader sees the writer, or the writer sees the reader.
/// - A reader that waits has a ticket: how many writers must have ended before it. These are as many as had announced themselves when it
///   came.
/// - A writer that ends, and still has `writing`, admits the readers whose tickets are due: it counts them in, in shard 0.
/// - So writers that wait go before later readers. And a reader waits for the writers it has found, not for later ones.
/// - `waiting` counts tickets. It is raised before the ticket is computed, and read after `ended` was raised: no ticket is overlooked.
/// - `draining` is set by the one writer that sleeps until the readers are out. Whoever counts itself out and sees the flag wakes that
///   writer.
/// - `tickets`, and sleeping, are guarded by `mutex`. `admitted` is written under it, and read without it by those who spin.
///
/// Counting out releases, and the writer's look at the shards acquires. `ended` and `admitted` release to readers what was written.
/// ThreadSanitizer sees all of it: there are no fences.
///
/// Not recursive: see `Protected`, which finds nested use.
struct ReadWriteLock: ~Copyable, @unchecked Sendable {  // pointers to atomics and pthread objects; `tickets` is guarded by `mutex`
  private struct Words: ~Copyable {
    let ended = Atomic<Int>(0)
    let announced = Atomic<Int>(0)
    let admitted = Atomic<Int>(0)
    let waiting = Atomic<Int>(0)
    let draining = Atomic<Bool>(false)
    let writing = Lock()
  }

  private static let cacheLine = 64
  #if OWNED_OPERATIONS_MODEL
    private static let looks = 1
    private static let mostShardBits = 1
  #else
    private static let looks = 40
    private static let mostShardBits = 5
  #endif
  private static let pause = 10
  /// The logarithm of the number of shards, which is a power of two. There are several for each processor, so that two threads that run
  /// seldom share one.
  private static let shardBits: Int = {
    var bits = 1
    while 1 << bits < 4 * sysconf(Int32(_SC_NPROCESSORS_ONLN)), bits < mostShardBits { bits += 1 }
    return bits
  }()

  private let words: UnsafeMutablePointer<Words>
  // In memory of their own: whoever changes one of them would change all that lies with it, as exclusivity and its checkers see it.
  private let tickets = UnsafeMutablePointer<[Int]>.allocate(capacity: 1)
  private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private let readersMayGoOn = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
  private let writerMayGoOn = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
  private let shards: UnsafeMutableRawPointer
  private let shardCount: Int
  private let hashShift: UInt64

  init() {
    words = .allocate(capacity: 1)
    words.initialize(to: Words())
    tickets.initialize(to: [])
    pthread_mutex_init(mutex, nil)
    pthread_cond_init(readersMayGoOn, nil)
    pthread_cond_init(writerMayGoOn, nil)
    shardCount = 1 << Self.shardBits
    hashShift = UInt64(64 - Self.shardBits)
    shards = .allocate(byteCount: shardCount * Self.cacheLine, alignment: Self.cacheLine)
    for index in 0..<shardCount {
      (shards + index * Self.cacheLine).bindMemory(to: Atomic<Int>.self, capacity: 1).initialize(to: Atomic(0))
    }
  }

  deinit {
    pthread_cond_destroy(writerMayGoOn)
    writerMayGoOn.deallocate()
    pthread_cond_destroy(readersMayGoOn)
    readersMayGoOn.deallocate()
    pthread_mutex_destroy(mutex)
    mutex.deallocate()
    tickets.deinitialize(count: 1)
    tickets.deallocate()
    words.deinitialize(count: 1)
    words.deallocate()
    shards.deallocate()
  }

  // MARK: Readers

  /// - Returns: for `endRead`, on the same thread.
  @inline(__always)  // for each read: two atomic operations
  func beginRead() -> Int {
    let shard = shardOfThisThread
    count(1, in: shard)
    if isFreeOfWriters || Mutation.readerOverlooksTheWriter.isOn { return shard }
    return beginReadBehindWriters(shard)
  }

  @inline(__always)  // for each read: two atomic operations
  func endRead(_ shard: Int) {
    count(-1, in: shard)
    if words.pointee.draining.load(ordering: .sequentiallyConsistent) { wakeWriter() }
  }

  @inline(never)
  private func beginReadBehindWriters(_ shard: Int) -> Int {
    let found = words.pointee.announced.load(ordering: .sequentiallyConsistent)
    repeat {
      endRead(shard)
      if let ticket = takeTicket(after: found) {
        wait(with: ticket)
        return 0
      }
      count(1, in: shard)
    } while !isFreeOfWriters
    return shard
  }

  /// - Returns: nil if nobody writes any more.
  private func takeTicket(after found: Int) -> Int? {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    if !Mutation.writerOverlooksTheTicket.isOn { words.pointee.waiting.add(1, ordering: .sequentiallyConsistent) }
    let ended = words.pointee.ended.load(ordering: .sequentiallyConsistent)
    if Mutation.writerOverlooksTheTicket.isOn { words.pointee.waiting.add(1, ordering: .sequentiallyConsistent) }
    guard ended != words.pointee.announced.load(ordering: .sequentiallyConsistent) else {
      words.pointee.waiting.subtract(1, ordering: .sequentiallyConsistent)
      return nil
    }
    // Those that ended before this look have looked for tickets, perhaps too early for this one.
    let ticket = max(found, ended + 1)
    tickets.pointee.append(ticket)
    return ticket
  }

  private func wait(with ticket: Int) {
    for _ in 0..<Self.looks {
      if words.pointee.admitted.load(ordering: .acquiring) >= ticket { return }
      Pause.spin(Self.pause)
    }
    pthread_mutex_lock(mutex)
    while words.pointee.admitted.load(ordering: .acquiring) < ticket {
      pthread_cond_wait(readersMayGoOn, mutex)
    }
    pthread_mutex_unlock(mutex)
  }

  // MARK: Writers

  @inline(__always)  // for each write
  func beginWrite() {
    words.pointee.announced.add(1, ordering: .sequentiallyConsistent)
    words.pointee.writing.lock()
    if !isFreeOfReaders { waitForReaders() }
  }

  @inline(__always)  // for each write
  func endWrite() {
    words.pointee.ended.add(1, ordering: .sequentiallyConsistent)
    if words.pointee.waiting.load(ordering: .sequentiallyConsistent) > 0 { admitReaders() }
    words.pointee.writing.unlock()
  }

  @inline(never)
  private func waitForReaders() {
    for _ in 0..<Self.looks {
      Pause.spin(Self.pause)
      if isFreeOfReaders { return }
    }
    pthread_mutex_lock(mutex)
    words.pointee.draining.store(!Mutation.writerSleepsUnseen.isOn, ordering: .sequentiallyConsistent)
    while !isFreeOfReaders {
      if Mutation.writerSleepsUnseen.isOn { words.pointee.draining.store(true, ordering: .sequentiallyConsistent) }
      pthread_cond_wait(writerMayGoOn, mutex)
    }
    words.pointee.draining.store(false, ordering: .sequentiallyConsistent)
    pthread_mutex_unlock(mutex)
  }

  @inline(never)
  private func wakeWriter() {
    pthread_mutex_lock(mutex)
    pthread_cond_signal(writerMayGoOn)
    pthread_mutex_unlock(mutex)
  }

  /// By the writer that has ended, which keeps others from beginning until these are counted.
  @inline(never)
  private func admitReaders() {
    pthread_mutex_lock(mutex)
    let ended = words.pointee.ended.load(ordering: .sequentiallyConsistent)
    let before = tickets.pointee.count
    tickets.pointee.removeAll { $0 <= ended }
    let admissions = before - tickets.pointee.count
    if admissions > 0 {
      count(admissions, in: 0)
      words.pointee.waiting.subtract(admissions, ordering: .sequentiallyConsistent)
      words.pointee.admitted.store(ended, ordering: .releasing)
      pthread_cond_broadcast(readersMayGoOn)
    }
    pthread_mutex_unlock(mutex)
  }

  // MARK: Looking

  @inline(__always)  // for each read
  private var isFreeOfWriters: Bool {
    let ended = words.pointee.ended.load(ordering: .sequentiallyConsistent)
    return ended == words.pointee.announced.load(ordering: .sequentiallyConsistent)
  }

  @inline(__always)  // for each write
  private var isFreeOfReaders: Bool {
    for shard in 0..<shardCount where readers(in: shard) != 0 { return false }
    return true
  }

  /// For tests: how many readers wait for writers.
  var waitingReaders: Int { words.pointee.waiting.load(ordering: .sequentiallyConsistent) }

  /// For tests: how many writers hold the lock or wait for it.
  var unfinishedWriters: Int {
    let ended = words.pointee.ended.load(ordering: .sequentiallyConsistent)
    return words.pointee.announced.load(ordering: .sequentiallyConsistent) - ended
  }

  @inline(__always)  // for each read: one atomic operation
  private func count(_ change: Int, in shard: Int) {
    (shards + shard * Self.cacheLine).assumingMemoryBound(to: Atomic<Int>.self).pointee.add(change, ordering: .sequentiallyConsistent)
  }

  @inline(__always)  // for each write and shard: one atomic operation
  private func readers(in shard: Int) -> Int {
    (shards + shard * Self.cacheLine).assumingMemoryBound(to: Atomic<Int>.self).pointee.load(ordering: .sequentiallyConsistent)
  }

  /// Fibonacci hashing: stacks lie apart by multiples of some power of two, and the high bits of the product are well mixed.
  @inline(__always)  // for each read: a few instructions
  private var shardOfThisThread: Int {
    #if OWNED_OPERATIONS_MODEL
      if let thread = ModelRun.thread { return thread.number & (shardCount - 1) }
    #endif
    // A number on some platforms, a pointer on others.
    let thread = withUnsafeBytes(of: pthread_self()) { UInt64($0.load(as: UInt.self)) >> 12 }
    return Int((thread &* 0x9E37_79B9_7F4A_7C15) >> hashShift)
  }
}
