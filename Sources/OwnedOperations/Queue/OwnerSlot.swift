/// What a queue knows of one owner: its pending work by priority, and how much of it is unfinished and executing.
///
/// Guarded by the queue's lock, but for the constants. A slot is a member of its owner's lifetime and so hears of the end; the slot of
/// work without an owner has no lifetime.
final class OwnerSlot: LifetimeMember {
  let lifetime: OwnerLifetime?
  /// The same, for those who must not count references: the count is in a cache line that other threads want.
  let unretainedLifetime: Unmanaged<OwnerLifetime>?
  private let queue: QueueReference?
  /// Valid until `isRemoved`.
  var stage: Stage { unretainedStage.takeUnretainedValue() }
  nonisolated(unsafe) let unretainedStage: Unmanaged<Stage>  // constant; used under the lock

  /// Retained.
  private typealias Lanes = (Unmanaged<Lane>?, Unmanaged<Lane>?, Unmanaged<Lane>?, Unmanaged<Lane>?, Unmanaged<Lane>?)

  static let memberKind: MemberKind = MemberKindOf<OwnerSlot>()
  nonisolated(unsafe) var memberIndex = MemberList.notListed  // guarded by the lifetime's lock

  // Guarded by the queue's lock.
  nonisolated(unsafe) private var lanes: Lanes = (nil, nil, nil, nil, nil)
  /// Pending, taken by a worker, or executing.
  nonisolated(unsafe) var unfinished = 0
  /// Taken by a worker or executing, asynchronous operations included.
  nonisolated(unsafe) var executing = 0
  /// The part of `executing` that is blocked in a wait of ours, and leaves its place to others.
  nonisolated(unsafe) var waiting = 0
  nonisolated(unsafe) var isSuspended = false
  nonisolated(unsafe) var hasEnded = false

  /// Taken out of its stage, which may be gone: a call that was on its way finds nothing left to do.
  nonisolated(unsafe) var isRemoved = false

  init(lifetime: OwnerLifetime?, stage: Stage, queue: QueueReference?, isSuspended: Bool) {
    self.lifetime = lifetime
    unretainedLifetime = lifetime.map(Unmanaged.passUnretained)
    unretainedStage = .passUnretained(stage)
    self.queue = queue
    self.isSuspended = isSuspended
  }

  deinit {
    for level in 0..<Stage.levelCount { unretainedLanes(level)?.release() }
  }

  /// Whether the owner may still have work started. Asked after the work is claimed: this load decides.
  var mayStart: Bool { unretainedLifetime?._withUnsafeGuaranteedRef { $0.isAlive } ?? true }

  /// Whether the owner's turn has to wait.
  @inline(__always)
  func isHeld(_ ownerLimit: Int) -> Bool { isSuspended || executing - waiting >= ownerLimit }

  /// Nothing refers to the slot or its lanes.
  var isIdle: Bool {
    unfinished == 0 && executing == 0 && (0..<Stage.levelCount).allSatisfy { lane(at: $0)?.work.count ?? 0 == 0 }
  }

  func lane(at level: Int) -> Lane? { unretainedLanes(level)?.takeUnretainedValue() }

  func makeLane(at level: Int) -> Lane { unretainedLane(at: level).takeUnretainedValue() }

  /// The same, for those who must not count references.
  @inline(__always)
  func unretainedLane(at level: Int) -> Unmanaged<Lane> { unretainedLanes(level) ?? addLane(at: level) }

  @inline(__always)
  private func unretainedLanes(_ level: Int) -> Unmanaged<Lane>? {
    switch level {
    case 0: lanes.0
    case 1: lanes.1
    case 2: lanes.2
    case 3: lanes.3
    default: lanes.4
    }
  }

  private func addLane(at level: Int) -> Unmanaged<Lane> {
    let lane = Unmanaged.passRetained(Lane(slot: self))
    switch level {
    case 0: lanes.0 = lane
    case 1: lanes.1 = lane
    case 2: lanes.2 = lane
    case 3: lanes.3 = lane
    default: lanes.4 = lane
    }
    return lane
  }

  /// The slot is about to go.
  func leaveBorrowedChunks() {
    for level in 0..<Stage.levelCount { lane(at: level)?.work.leaveBorrowedChunks() }
  }

  func lifetimeDidEnd() {
    queue?.queue?.ownerDidEnd(self)
  }
}

/// Slots that have been taken out of their stages and have yet to leave their lifetimes. Guarded by the queue's lock.
///
/// To leave may mean to let go of the last reference to a lifetime, or to other pending work of the owner, whose hooks and deinits are the user's code. So
/// it is done after unlocking.
final class SlotDepartures {
  /// The lock makes its accesses exclusive.
  @exclusivity(unchecked) var slots: [OwnerSlot] = []

  static func complete(_ slots: [OwnerSlot]) {
    for slot in slots { slot.lifetime?.leave(slot) }
  }
}

/// The pending work of one owner at one priority, in order. Guarded by the queue's lock.
final class Lane {
  /// The slot keeps its lanes. A lane that outlives it, in a ready ring, has no work left and doesn't look.
  let unretainedSlot: Unmanaged<OwnerSlot>
  var slot: OwnerSlot { unretainedSlot.takeUnretainedValue() }
  /// The lock makes its accesses exclusive.
  @exclusivity(unchecked) var work = WorkList()
  /// Tickets in the ready ring whose work has been cancelled. They come up before those of younger work.
  var voidTickets = 0
  /// Tickets that came up while the owner was suspended or at its limit.
  var heldTickets = 0
  /// Round robin: whether the lane waits for its turn.
  var isInRing = false

  init(slot: OwnerSlot) {
    unretainedSlot = .passUnretained(slot)
  }
}

/// Finds the slot of a lifetime. Open addressing by the lifetime's address, which costs a few nanoseconds where `Dictionary` hashes for
/// tens. Guarded by the queue's lock.
struct SlotTable: ~Copyable {
  private var keys: UnsafeMutablePointer<UInt>
  private var slots: UnsafeMutablePointer<OwnerSlot?>
  private var capacity: Int
  private(set) var count = 0

  private static let smallest = 8

  init() {
    capacity = Self.smallest
    keys = .allocate(capacity: capacity)
    keys.initialize(repeating: 0, count: capacity)
    slots = .allocate(capacity: capacity)
    slots.initialize(repeating: nil, count: capacity)
  }

  deinit {
    keys.deallocate()
    slots.deinitialize(count: capacity)
    slots.deallocate()
  }

  private func key(_ lifetime: OwnerLifetime) -> UInt { UInt(bitPattern: Unmanaged.passUnretained(lifetime).toOpaque()) }

  /// Fibonacci hashing: the high bits of the product are well mixed.
  private func home(_ key: UInt) -> Int {
    Int((key >> 4 &* 0x9E37_79B9_7F4A_7C15) >> UInt(UInt.bitWidth - capacity.trailingZeroBitCount))
  }

  subscript(lifetime: OwnerLifetime) -> OwnerSlot? {
    let key = key(lifetime)
    var index = home(key)
    while keys[index] != 0 {
      if keys[index] == key { return slots[index] }
      index = (index + 1) & (capacity - 1)
    }
    return nil
  }

  mutating func insert(_ slot: OwnerSlot, for lifetime: OwnerLifetime) {
    if (count + 1) * 2 > capacity { resize(to: capacity * 2) }
    place(slot, key(lifetime))
    count += 1
  }

  private mutating func place(_ slot: OwnerSlot?, _ key: UInt) {
    var index = home(key)
    while keys[index] != 0 { index = (index + 1) & (capacity - 1) }
    keys[index] = key
    slots[index] = slot
  }

  mutating func remove(_ lifetime: OwnerLifetime) {
    let key = key(lifetime)
    var index = home(key)
    while keys[index] != key {
      guard keys[index] != 0 else { return }
      index = (index + 1) & (capacity - 1)
    }
    keys[index] = 0
    slots[index] = nil
    count -= 1
    // Those behind may have been pushed along by the one that went.
    var next = (index + 1) & (capacity - 1)
    while keys[next] != 0 {
      let moved = keys[next]
      let slot = slots[next]
      keys[next] = 0
      slots[next] = nil
      place(slot, moved)
      next = (next + 1) & (capacity - 1)
    }
    if capacity > Self.smallest, count * 8 < capacity { resize(to: capacity / 2) }
  }

  private mutating func resize(to newCapacity: Int) {
    let (oldKeys, oldSlots, oldCapacity) = (keys, slots, capacity)
    capacity = newCapacity
    keys = .allocate(capacity: capacity)
    keys.initialize(repeating: 0, count: capacity)
    slots = .allocate(capacity: capacity)
    slots.initialize(repeating: nil, count: capacity)
    for index in 0..<oldCapacity where oldKeys[index] != 0 { place(oldSlots[index], oldKeys[index]) }
    oldKeys.deallocate()
    oldSlots.deinitialize(count: oldCapacity)
    oldSlots.deallocate()
  }

  func forEach(_ body: (OwnerSlot) -> Void) {
    for index in 0..<capacity {
      if let slot = slots[index] { body(slot) }
    }
  }

  func filter(_ isIncluded: (OwnerSlot) -> Bool) -> [OwnerSlot] {
    var included: [OwnerSlot] = []
    forEach { if isIncluded($0) { included.append($0) } }
    return included
  }
}
