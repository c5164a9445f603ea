/// The pending work between two barriers, ready to be taken by priority and turn.
///
/// A queue has one phase, and one more for each barrier that waits: what is added goes to the last phase, what is started comes from
/// the first, and when the first has nothing unfinished its barrier runs and the next phase moves up. So a barrier costs the work
/// around it nothing.
///
/// Everything here is guarded by the queue's lock.
///
/// Work lies in lanes (one owner, and one priority or line); tickets in the ready rings say whose turn it is. What always holds:
///
/// - First come, first served: a lane has as many tickets, in the ring and held, less the void ones, as it has records.
/// - Round robin: a lane with records is in the ring, once, or held.
/// - `readyCount` is the number of records of lanes whose tickets are in the rings. Some of their owners may turn out to be suspended or
///   at their limit when their turn comes; then the tickets are held, and come back to the ring later.
/// - First come, first served: a ticket that is held, or whose record a worker has and gives back, keeps its age and comes back by it.
///   Those of an owner without lines that are held together have the age of the oldest.
/// - What is held of a line that may go on has its oldest run in the ring.
final class BarrierPhase {
  // First what every addition touches.

  /// The slot that was used last, if it is still in the table.
  private var lastSlot: (lifetime: Borrowed<OwnerLifetime>?, slot: Borrowed<OwnerSlot>)?
  /// Pending, taken and executing work of this phase, operations that wait for dependencies included.
  private(set) var unfinished = 0
  /// Records in the hands of workers, and operations that execute without one.
  private(set) var executing = 0
  var readyCount = 0
  /// A bit for each level with entries in its ring; the lowest bit is the highest priority.
  var readyLevels: UInt32 = 0
  private(set) var fairness: OwnerFairness
  /// A turn was held because one of its line runs. Until the monitor is told.
  var hasHeldForLine = false

  /// The phase ends with a barrier, cancelled or not.
  var isClosed = false
  /// To run when everything in this phase has finished.
  var barrier: (@Sendable () -> Void)?

  /// One for each level.
  let rings = UnsafeMutablePointer<ReadyRing>.allocate(capacity: PriorityLevel.count)
  private var slots = PointerMap<OwnerSlot>()
  private var ownerlessSlot: OwnerSlot?
  private var sweepThreshold = 64
  /// For each level, how many records have died since the last sweep, and how many may.
  var deadRecords = [Int](repeating: 0, count: PriorityLevel.count)
  var mostDeadRecords = [Int](repeating: fewestDeadRecords, count: PriorityLevel.count)
  private let departures: SlotDepartures

  init(fairness: OwnerFairness, departures: SlotDepartures) {
    self.fairness = fairness
    self.departures = departures
    for level in 0..<PriorityLevel.count { (rings + level).initialize(to: ReadyRing()) }
  }

  deinit {
    rings.deinitialize(count: PriorityLevel.count)
    rings.deallocate()
  }

  // MARK: Slots

  /// The slot of the owner, made if need be; nil if the owner has ended.
  @inline(__always)
  func slot(for lifetime: Borrowed<OwnerLifetime>?, orMake make: (OwnerLifetime) -> OwnerSlot) -> Borrowed<OwnerSlot>? {
    if let lastSlot, lastSlot.lifetime?.address == lifetime?.address {
      return lastSlot.slot.with { $0.hasEnded } ? nil : lastSlot.slot
    }
    guard let slot = findOrMakeSlot(for: lifetime?.object, make), !slot.hasEnded else { return nil }
    lastSlot = (lifetime, Borrowed(slot))
    return Borrowed(slot)
  }

  private func findOrMakeSlot(for lifetime: OwnerLifetime?, _ make: (OwnerLifetime) -> OwnerSlot) -> OwnerSlot? {
    guard let lifetime else { return slotWithoutOwner }
    if let slot = slots[lifetime] { return slot }
    let slot = make(lifetime)
    guard lifetime.join(slot) else { return nil }
    if slots.count >= sweepThreshold { sweepSlots() }
    slots[lifetime] = slot
    return slot
  }

  /// For work that nobody owns.
  var slotWithoutOwner: OwnerSlot {
    let slot = ownerlessSlot ?? OwnerSlot(lifetime: nil, home: self, listener: nil, isSuspended: false)
    ownerlessSlot = slot
    return slot
  }

  /// For tests that say memory stays flat.
  var slotCount: Int { slots.count }

  func existingSlot(for lifetime: OwnerLifetime) -> OwnerSlot? { slots[lifetime] }

  func forEachSlot(_ body: (OwnerSlot) -> Void) {
    if let ownerlessSlot { body(ownerlessSlot) }
    slots.visit(body)
  }

  /// A slot keeps its lifetime, and one without work for no reason. Those of owners that end are removed then; this is for
  /// lifetimes that are only dropped. The threshold doubles with the owners that are left, so the cost per slot made is constant.
  private func sweepSlots() {
    for slot in idleSlots { remove(slot) }
    sweepThreshold = max(64, slots.count * 2)
  }

  var idleSlots: [OwnerSlot] { slots.filter { $0.isIdle && !$0.isSuspended } }

  func removeIfIdle(_ slot: OwnerSlot) {
    if !slot.isRemoved, slot.isIdle, !slot.isSuspended { remove(slot) }
  }

  private func remove(_ slot: OwnerSlot) {
    guard let lifetime = slot.lifetime, !slot.isRemoved else { return }
    slot.isRemoved = true
    slot.leaveBorrowedChunks()
    if lastSlot?.slot.address == Borrowed(slot).address { lastSlot = nil }
    departures.slots.append(slot)
    slots[lifetime] = nil
  }

  /// The owner ended and nothing of it is left, or the phase is over.
  func removeIfDone(_ slot: OwnerSlot) {
    if slot.hasEnded, slot.isIdle { remove(slot) }
  }

  /// The phase is over. What is left in its lanes are records of operations that were cancelled.
  func removeAllSlots() -> [TakenWork] {
    var taken: [TakenWork] = []
    forEachSlot { taken += takeAll(of: $0) }
    for slot in slots.filter({ _ in true }) { remove(slot) }
    ownerlessSlot?.leaveBorrowedChunks()
    ownerlessSlot?.isRemoved = true
    return taken
  }

  // MARK: Adding

  /// Counts a record in that goes to a worker at once.
  @inline(__always)
  func addTaken(of slot: Borrowed<OwnerSlot>, level: Int) -> (lane: Borrowed<Lane>, age: UInt64) {
    unfinished += 1
    executing += 1
    return slot.with { slot in
      slot.changeUnfinished(by: 1)
      slot.executing += 1
      return (slot.unretainedLane(at: level), rings[level].makeAge())
    }
  }

  /// Counts work in that can't start yet: an operation with unfinished dependencies.
  func addBlocked(_ slot: OwnerSlot, count: Int = 1) {
    unfinished += count
    slot.changeUnfinished(by: count)
  }

  /// - Returns: where the record is to be written before the lock is left.
  @inline(__always)
  func add(to slot: Borrowed<OwnerSlot>, level: Int, pool: inout ChunkPool, ownerLimit: Int) -> UnsafeMutablePointer<Work> {
    slot.with { slot in
      unfinished += 1
      slot.changeUnfinished(by: 1)
      return makeReady(slot: slot, level: level, pool: &pool, ownerLimit: ownerLimit)
    }
  }

  /// Adds to a line of the owner's.
  /// - Returns: where the record is to be written before the lock is left.
  func add(to slot: OwnerSlot, line: LineKey, pool: inout ChunkPool, ownerLimit: Int) -> UnsafeMutablePointer<Work> {
    unfinished += 1
    slot.changeUnfinished(by: 1)
    return makeReady(in: slot.makeLane(of: line), isHeld: slot.isHeld(ownerLimit), level: LineKey.level, pool: &pool)
  }

  /// Work that has been counted becomes ready.
  /// - Returns: where the record is to be written before the lock is left.
  @inline(__always)
  func makeReady(slot: OwnerSlot, level: Int, pool: inout ChunkPool, ownerLimit: Int) -> UnsafeMutablePointer<Work> {
    let isHeld = slot.isHeld(ownerLimit)
    return slot.unretainedLane(at: level).with { makeReady(in: $0, isHeld: isHeld, level: level, pool: &pool) }
  }

  /// - Parameter isHeld: whether the owner's turn has to wait.
  @inline(__always)
  private func makeReady(in lane: Lane, isHeld: Bool, level: Int, pool: inout ChunkPool) -> UnsafeMutablePointer<Work> {
    let place = lane.work.makePlace(pool: &pool)
    switch fairness {
    case .firstComeFirstServed:
      // Who has to wait for a turn gets a ticket in the ring all the same, unless nobody else is there. That is held when it comes up: so
      // those that are held are older than all in the ring.
      if isHeld, rings[level].isEmpty {
        let hasLines = lane.unretainedSlot.with { $0.hasLines }
        lane.held.addNewest(after: rings[level].lastAge, inRuns: hasLines) { rings[level].makeAge() }
        if lane.isLineHeld { hasHeldForLine = true }
        return place
      }
      rings[level].appendTicket(for: lane)
      readyCount += 1
    case .roundRobin:
      if lane.isInRing {
        readyCount += 1
      } else if isHeld || lane.isLineHeld {
        lane.held.reset(to: 1)
        if lane.isLineHeld { hasHeldForLine = true }
        return place
      } else {
        enterRing(lane, level: level, atFront: false)
      }
    }
    readyLevels |= 1 << UInt32(level)
    return place
  }

  /// Round robin: the lane joins with all of its records.
  private func enterRing(_ lane: Lane, level: Int, atFront: Bool) {
    lane.isInRing = true
    lane.held.reset()
    readyCount += lane.work.count
    let entry = ReadyRing.Entry(lane: lane, tickets: 1, age: 0)
    if atFront { rings[level].prepend(entry) } else { rings[level].append(entry) }
    readyLevels |= 1 << UInt32(level)
  }

  /// Puts work that a worker had taken, and not begun, back to where it came from.
  /// - Parameter age: of its tickets; 0 for work that comes before all else.
  func giveBack(movingFrom source: UnsafeMutablePointer<Work>, count: Int, lane: Lane, level: Int, age: UInt64) {
    lane.work.prepend(movingFrom: source, count: count)
    lane.slot.executing -= count
    lane.line?.executing -= count
    executing -= count
    switch fairness {
    case .firstComeFirstServed:
      rings[level].bringBack(ReadyRing.Entry(lane: lane, tickets: count, age: age))
      readyCount += count
      // With those that are held: who held them may have been what is given back.
      bringBackHeld(of: lane, level: level)
    case .roundRobin:
      if lane.isInRing { readyCount += count } else { enterRing(lane, level: level, atFront: true) }
    }
    readyLevels |= 1 << UInt32(level)
  }

  // MARK: Taking

  /// Moves ready work of the highest level to `batch`.
  /// - Returns: the level, or nil if nothing can be taken.
  func take(_ limit: Int, into batch: WorkBatch, pool: inout ChunkPool, ownerLimit: Int) -> Int? {
    while readyLevels != 0 {
      let level = readyLevels.trailingZeroBitCount
      while batch.count < limit, let (lane, tickets, age) = rings[level].unretainedFirst {
        // The entry keeps the lane; where the entry goes, the lane is held here.
        let isFull = lane.with { lane in
          takeTurn(of: lane, tickets: tickets, age: age, level: level, limit: limit, into: batch, pool: &pool, ownerLimit: ownerLimit)
        }
        if isFull { break }
      }
      if rings[level].isEmpty { readyLevels &= ~(1 << UInt32(level)) }
      if batch.count > 0 { return level }
    }
    return nil
  }

  /// Does with the first entry of the ring what its turn has come for.
  /// - Returns: whether nothing can be added to the batch.
  @inline(__always)
  private func takeTurn(
    of lane: Lane, tickets: Int, age: UInt64, level: Int, limit: Int, into batch: WorkBatch, pool: inout ChunkPool, ownerLimit: Int
  ) -> Bool {
    if lane.work.count == 0 {
      // All of it was cancelled.
      if let entry = rings[level].first { dropFirst(entry, level: level) }
    } else if lane.unretainedSlot.with({ $0.isHeld(ownerLimit) }) || lane.isLineHeld {
      if let entry = rings[level].first { hold(entry, level: level) }
    } else if fairness == .roundRobin {
      guard let entry = rings[level].first else { return false }
      rings[level].removeFirst()
      count(batch.fill(from: lane, limit: 1, age: age, pool: &pool), takenFrom: lane)
      if lane.work.count > 0 { rings[level].append(entry) } else { lane.isInRing = false }
      if lane.line == nil { return false }
      if lane.isInRing, rings[level].count == 1 { hold(entry, level: level) }
      return true
    } else if lane.voidTickets > 0 {
      let void = min(lane.voidTickets, tickets)
      lane.voidTickets -= void
      rings[level].useFirst(void)
    } else {
      // Of a line one, and nothing behind it, which would come before the rest of the line.
      let isLine = lane.line != nil
      let most = isLine ? 1 : min(limit - batch.count, tickets)
      let borrows = batch.count == 0 && most >= WorkBatch.leastBorrowed
      let taken =
        borrows
        ? batch.borrow(from: lane, limit: most, age: age, pool: &pool) : batch.fill(from: lane, limit: most, age: age, pool: &pool)
      count(taken, takenFrom: lane)
      rings[level].useFirst(taken)  // and the lane may be gone
      // Its next is held now, instead of sending a worker for it.
      if isLine, tickets > taken, let rest = rings[level].first { hold(rest, level: level) }
      if isLine, lane.held.count > 0 { hasHeldForLine = true }
      return borrows || isLine && !Mutation.batchGoesOnBehindALine.isOn
    }
    return false
  }

  private func count(_ taken: Int, takenFrom lane: Lane) {
    lane.unretainedSlot.with { $0.executing += taken }
    lane.line?.executing += taken
    executing += taken
    readyCount -= taken
  }

  private func dropFirst(_ entry: ReadyRing.Entry, level: Int) {
    rings[level].removeFirst()
    entry.lane.isInRing = false
    if fairness == .firstComeFirstServed { entry.lane.voidTickets -= entry.tickets }
  }

  private func hold(_ entry: ReadyRing.Entry, level: Int) {
    rings[level].removeFirst()
    if entry.lane.isLineHeld { hasHeldForLine = true }
    switch fairness {
    case .firstComeFirstServed:
      let void = min(entry.lane.voidTickets, entry.tickets)
      entry.lane.voidTickets -= void
      readyCount -= entry.tickets - void
      guard entry.tickets > void else { return }
      entry.lane.held.add(entry.tickets - void, age: entry.age, inRuns: entry.lane.slot.hasLines)
    case .roundRobin:
      entry.lane.isInRing = false
      entry.lane.held.reset(to: 1)
      readyCount -= entry.lane.work.count
    }
  }

  /// The owner may run again, or may run more: its held tickets come back.
  func release(_ slot: OwnerSlot, ownerLimit: Int) {
    guard !slot.isRemoved, !slot.isHeld(ownerLimit) else { return }
    for level in 0..<PriorityLevel.count { slot.forEachLane(at: level) { release($0, level: level) } }
  }

  private func release(_ lane: Lane, level: Int) {
    guard lane.held.count > 0, !lane.isLineHeld else { return }
    switch fairness {
    case .firstComeFirstServed: bringBackHeld(of: lane, level: level)
    case .roundRobin: enterRing(lane, level: level, atFront: false)
    }
  }

  private func bringBackHeld(of lane: Lane, level: Int) {
    // Of a line the oldest is enough: its end brings the next. All of them would only be held again, one by one, by whoever comes to them.
    repeat {
      guard let (age, tickets) = lane.held.takeOldest() else { return }
      rings[level].bringBack(ReadyRing.Entry(lane: lane, tickets: tickets, age: Mutation.heldTurnLosesItsAge.isOn ? 0 : age))
      readyCount += tickets
      readyLevels |= 1 << UInt32(level)
    } while lane.line == nil
  }

  /// Something has changed for a line: what comes next in it may be due.
  func release(lineOf lane: Lane, ownerLimit: Int) {
    if Mutation.lineIsNotReleased.isOn { return }
    if !lane.slot.isRemoved, !lane.slot.isHeld(ownerLimit) { release(lane, level: LineKey.level) }
  }

  /// How many owners have a turn at the highest level. Round robin only.
  var turns: Int { readyLevels == 0 ? 0 : rings[readyLevels.trailingZeroBitCount].count }

  // MARK: Finishing and cancelling

  /// Work is over.
  @inline(__always)
  func finish(_ slot: OwnerSlot, count: Int = 1) {
    unfinished -= count
    slot.changeUnfinished(by: -count)
  }

  /// A worker has let go of one record, or an operation has ended that executed without a worker (then `by` is -1; and 1 when that begins).
  @inline(__always)
  func changeExecuting(_ slot: OwnerSlot, by change: Int) {
    executing += change
    slot.executing += change
  }

  /// Takes all ready work of the owner out.
  /// - Returns: the records, to be released outside the lock. They still count as unfinished.
  func takeAll(of slot: OwnerSlot) -> [TakenWork] {
    var taken: [TakenWork] = []
    var lines: [Lane] = []
    for level in 0..<PriorityLevel.count {
      slot.forEachLane(at: level) { lane in
        if lane.work.count > 0 { taken.append(takeAll(in: lane)) }
        if lane.line != nil { lines.append(lane) }
      }
    }
    for lane in lines { slot.removeIfIdle(lane) }
    return taken
  }

  private func takeAll(in lane: Lane) -> TakenWork {
    let records = lane.work.count
    switch fairness {
    case .firstComeFirstServed:
      lane.voidTickets += records - lane.held.count
      readyCount -= records - lane.held.count
    case .roundRobin:
      if lane.isInRing { readyCount -= records }
    }
    lane.held.reset()
    return TakenWork(lane.work.takeAll())
  }

  /// Takes all ready work of the line out, as above.
  func takeAll(of line: LineKey, _ slot: OwnerSlot) -> TakenWork? {
    guard let lane = slot.lane(of: line), lane.work.count > 0 else { return nil }
    defer { slot.removeIfIdle(lane) }
    return takeAll(in: lane)
  }

  // MARK: Fairness

  /// Lays the rings anew. The order among owners starts over from their oldest tickets.
  func setFairness(_ newValue: OwnerFairness) {
    guard newValue != fairness else { return }
    fairness = newValue
    readyCount = 0
    for level in 0..<PriorityLevel.count {
      var inRing: [Lane] = []
      var seen = Set<ObjectIdentifier>()
      for entry in rings[level].takeAll() where entry.lane.work.count > 0 {
        if seen.insert(ObjectIdentifier(entry.lane)).inserted { inRing.append(entry.lane) }
      }
      forEachSlot { slot in
        slot.forEachLane(at: level) { lane in
          lane.voidTickets = 0
          lane.isInRing = false
          let isHeld = lane.work.count > 0 && !seen.contains(ObjectIdentifier(lane))
          lane.held.reset(to: !isHeld ? 0 : newValue == .roundRobin ? 1 : lane.work.count)
        }
      }
      for lane in inRing {
        lane.isInRing = newValue == .roundRobin
        let tickets = newValue == .roundRobin ? 1 : lane.work.count
        rings[level].append(ReadyRing.Entry(lane: lane, tickets: tickets, age: rings[level].makeAge()))
        readyCount += lane.work.count
      }
      if rings[level].isEmpty { readyLevels &= ~(1 << UInt32(level)) } else { readyLevels |= 1 << UInt32(level) }
    }
  }
}

extension OwnerSlot {
  /// Valid until `isRemoved`.
  var phase: BarrierPhase { unretainedPhase.object }
  @inline(__always)  // for each record
  var unretainedPhase: Borrowed<BarrierPhase> { Borrowed(address: unretainedHome.address) }
}
