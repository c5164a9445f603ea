#if !OWNED_OPERATIONS_MODEL
  import Foundation  // and with it the C library
  import Synchronization

  /// A four-byte mutual-exclusion lock, visible to ThreadSanitizer.
  ///
  /// `Synchronization.Mutex` is as small, but on Linux its fast path is hidden from ThreadSanitizer. A `pthread_mutex_t` is visible, but
  /// ten times as large. This one is a word of `Atomic`, whose operations the sanitizer sees. Waiters park in a small global table. So an
  /// object can afford a lock of its own.
  ///
  /// Protocol of the word: bits 0-1 are the state, the rest is the number of the parking bucket and never changes.
  ///
  ///     free ──CAS──▶ held ──exchange by a waiter──▶ contended
  ///      ▲              │                               │
  ///      └──store───────┴───────store, wake the bucket──┘
  ///
  /// - Taking the lock acquires, leaving it releases: whatever was written under the lock is seen by the next holder.
  /// - A waiter parks only while the word says `contended`, and looks at it under the bucket's mutex. The holder that leaves a contended
  ///   lock wakes the bucket under the same mutex after the word is free. So no wake-up is lost.
  /// - A waiter that gets the lock leaves it `contended`, because others may still be parked. That costs at most one
  ///   wake-up with nobody to wake.
  ///
  /// Not recursive. Never held while code of the user's runs (closures, deinitialisers).
  struct Lock: ~Copyable, Sendable {
    private static let free: UInt32 = 0
    private static let held: UInt32 = 1
    private static let contended: UInt32 = 2
    private static let stateMask: UInt32 = 3
    private static let looks = 90
    /// From a quarter of a microsecond to one. Who waits that long leaves the lock's cache line to who has it, who takes it several times
    /// more meanwhile. That costs less, for both, than to hand it over each time.
    private static let longestPause = 24

    private let word: Atomic<UInt32>

    /// - Parameter seed: spreads locks over the parking buckets; equal seeds are correct, only a little slower under contention.
    @inline(__always)  // two atomic operations, around a few instructions
    init(seed: UInt64 = 0) {
      word = Atomic(UInt32(truncatingIfNeeded: seed & UInt64(ParkingBucket.count - 1)) << 2)
    }

    @inline(__always)  // two atomic operations, around a few instructions
    func lock() {
      let bucket = word.load(ordering: .relaxed) & ~Self.stateMask
      if !word.compareExchange(expected: bucket | Self.free, desired: bucket | Self.held, ordering: .acquiring).exchanged {
        lockContended(bucket)
      }
    }

    /// Takes the lock, if nobody has it.
    @inline(__always)  // as above
    func tryLock() -> Bool {
      let bucket = word.load(ordering: .relaxed) & ~Self.stateMask
      return word.compareExchange(expected: bucket | Self.free, desired: bucket | Self.held, ordering: .acquiring).exchanged
    }

    @inline(__always)  // two atomic operations, around a few instructions
    func unlock() {
      let bucket = word.load(ordering: .relaxed) & ~Self.stateMask
      if word.exchange(bucket | Self.free, ordering: .releasing) & Self.stateMask == Self.contended {
        ParkingBucket.all[Int(bucket >> 2)].wakeAll()
      }
    }

    @inline(__always)  // two atomic operations, around a few instructions
    func withLock<Result: ~Copyable, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
      lock()
      defer { unlock() }
      return try body()
    }

    /// Whether somebody has given up looking, and parks. Good for whoever has the lock.
    var isAwaited: Bool { word.load(ordering: .relaxed) & Self.stateMask == Self.contended }

    /// What somebody has to keep, beside its memory, who may take the lock when what it is in has gone: nothing but in the model.
    var remains: (AnyObject & Sendable)? { nil }

    @inline(never)
    private func lockContended(_ bucket: UInt32) {
      // What a lock guards takes some ten nanoseconds, parking a thousand times that. So look for a while first, and less and less often.
      var pause = 1
      for _ in 0..<Self.looks {
        if word.load(ordering: .relaxed) == bucket | Self.free,
          word.compareExchange(expected: bucket | Self.free, desired: bucket | Self.held, ordering: .acquiring).exchanged
        {
          return
        }
        Pause.spin(pause)
        pause = min(pause * 2, Self.longestPause)
      }
      while word.exchange(bucket | Self.contended, ordering: .acquiring) & Self.stateMask != Self.free {
        ParkingBucket.all[Int(bucket >> 2)].park { word.load(ordering: .relaxed) == bucket | Self.contended }
      }
    }
  }

  /// Where threads wait for a contended ``Lock``. Several locks share a bucket; a wake-up is for all of its waiters.
  private struct ParkingBucket: @unchecked Sendable {  // only pointers to pthread objects, which may be used from any thread
    static let count = 64
    static let all: [ParkingBucket] = (0..<count).map { _ in ParkingBucket() }

    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

    init() {
      pthread_mutex_init(mutex, nil)
      pthread_cond_init(condition, nil)
    }

    func park(while shouldWait: () -> Bool) {
      pthread_mutex_lock(mutex)
      while shouldWait() { pthread_cond_wait(condition, mutex) }
      pthread_mutex_unlock(mutex)
    }

    func wakeAll() {
      pthread_mutex_lock(mutex)
      pthread_cond_broadcast(condition)
      pthread_mutex_unlock(mutex)
    }
  }
#endif
