import Foundation

/// How many transfers go to one host at once, and who waits for a turn.
///
/// Protocol, all under one lock:
/// - A ticket goes outside ──▶ waiting ──▶ granted ──▶ over, and from each of them to over. Over is for good.
/// - `line.underWay` counts the granted tickets of the host. None is granted while it has reached the limit.
/// - Grants run after the lock is let go, once each: they begin requests of others, and may take long.
/// - Who ends by itself, or has just entered, runs them at once: no request is held up by a change of threads.
/// - Who is told to stop, or changes a setting, is somebody's call. Grants run on `turns` then, in their order.
/// - A ticket that is over, or was raised to another level, stays in its line. It goes when it is reached or half of the line is such.
/// - `level` only becomes more urgent. So a ticket is never twice in the line of one level.
final class HostLimits: Sendable {
  /// A turn, or the wait for one. Whoever asked for it has to `release()` it, whatever has become of it.
  final class Ticket: @unchecked Sendable {  // all but constants is guarded by the limits' lock
    fileprivate enum Phase { case outside, waiting, granted, over }

    fileprivate let host: String
    fileprivate var level: Int
    fileprivate let limits: HostLimits
    fileprivate var phase = Phase.outside
    fileprivate var grant: (@Sendable () -> Void)?

    fileprivate init(_ limits: HostLimits, host: String, level: Int, grant: @escaping @Sendable () -> Void) {
      self.limits = limits
      self.host = host
      self.level = level
      self.grant = grant
    }

    /// Gets in line. Calls `grant` as soon as there is room, perhaps before this returns. Amortised constant time.
    func enter() { limits.enter(self) }

    /// Moves it to the end of those with this priority, if that is more urgent than its own.
    func raise(to priority: Operation.QueuePriority) { limits.raise(self, to: HostLimits.level(of: priority)) }

    /// Gives the turn back, or stops waiting for it. Does nothing the second time.
    /// - Parameter grantsHere: false where the thread is not to begin what others have asked for.
    func release(grantsHere: Bool = true) { limits.release(self, grantsHere) }
  }

  private struct Line {
    var underWay = 0
    /// By priority, the most urgent first.
    var waiting: [TicketQueue] = (0..<5).map { TicketQueue(level: $0) }

    mutating func next() -> Ticket? {
      for level in waiting.indices {
        if let ticket = waiting[level].popFirst() { return ticket }
      }
      return nil
    }
  }

  private struct State {
    var limit: Int
    var lines: [String: Line] = [:]
  }

  private let state: Guarded<State>
  /// Runs blocks one after the other, on no thread of the caller's.
  private let turns: Turns

  typealias Turns = @Sendable (_ block: @escaping @Sendable () -> Void) -> Void

  /// - Parameter turns: by default a queue; for the model checker.
  init(limit: Int, turns: Turns? = nil) {
    state = Guarded(State(limit: limit))
    let queue = DispatchQueue(label: "OwnedRequests.turns", qos: .userInitiated)
    self.turns = turns ?? { block in queue.async { SharedThread.run(block) } }
  }

  var limit: Int {
    get { state.withLock { $0.limit } }
    set {
      let grants = state.withLock { state in
        state.limit = newValue
        return state.lines.keys.flatMap { Self.grants(for: $0, &state) }
      }
      runElsewhere(grants)
    }
  }

  /// For tests: how many wait for a turn, at all hosts.
  var waitingCount: Int {
    state.withLock { state in state.lines.values.reduce(0) { $0 + $1.waiting.reduce(0) { $0 + $1.count } } }
  }

  private func runElsewhere(_ grants: [@Sendable () -> Void]) {
    guard !grants.isEmpty else { return }
    turns {
      for grant in grants { grant() }
    }
  }

  /// A ticket that is not in line yet.
  func ticket(host: String, priority: Operation.QueuePriority, grant: @escaping @Sendable () -> Void) -> Ticket {
    Ticket(self, host: host, level: Self.level(of: priority), grant: grant)
  }

  private func enter(_ ticket: Ticket) {
    let grants = state.withLock { state -> [@Sendable () -> Void] in
      guard ticket.phase == .outside else { return [] }
      ticket.phase = .waiting
      state.lines[ticket.host, default: Line()].waiting[ticket.level].append(ticket)
      return Self.grants(for: ticket.host, &state)
    }
    for grant in grants { grant() }
  }

  private func raise(_ ticket: Ticket, to level: Int) {
    state.withLock { state in
      guard level < ticket.level else { return }
      let former = ticket.level
      ticket.level = level
      guard ticket.phase == .waiting else { return }
      state.lines[ticket.host]?.waiting[former].noteGone()
      state.lines[ticket.host]?.waiting[level].append(ticket)
    }
  }

  private func release(_ ticket: Ticket, _ grantsHere: Bool) {
    var unused: (@Sendable () -> Void)?
    let grants = state.withLock { state -> [@Sendable () -> Void] in
      let phase = ticket.phase
      ticket.phase = .over
      switch phase {
      case .over: return []
      case .outside:
        swap(&unused, &ticket.grant)
        return []
      case .waiting:
        swap(&unused, &ticket.grant)
        state.lines[ticket.host]?.waiting[ticket.level].noteGone()
        if TransferMutation.leaverGivesATurnBack.isOn { state.lines[ticket.host]?.underWay -= 1 }
        return []
      case .granted:
        state.lines[ticket.host]?.underWay -= 1
        return Self.grants(for: ticket.host, &state)
      }
    }
    guard grantsHere else { return runElsewhere(grants) }
    for grant in grants { grant() }
  }

  private static func grants(for host: String, _ state: inout State) -> [@Sendable () -> Void] {
    guard var line = state.lines.removeValue(forKey: host) else { return [] }
    var grants: [@Sendable () -> Void] = []
    while line.underWay < state.limit, let ticket = line.next() {
      ticket.phase = .granted
      line.underWay += 1
      if let grant = ticket.grant { grants.append(grant) }
      ticket.grant = nil
    }
    if line.underWay > 0 || line.waiting.contains(where: { !$0.isEmpty }) { state.lines[host] = line }
    return grants
  }

  static func level(of priority: Operation.QueuePriority) -> Int {
    switch priority {
    case .veryHigh: 0
    case .high: 1
    case .low: 3
    case .veryLow: 4
    default: 2
    }
  }

  /// First in, first out, with holes where tickets are over or were raised.
  private struct TicketQueue {
    let level: Int
    private var tickets: [Ticket] = []
    private var head = 0
    private var gone = 0

    var isEmpty: Bool { head == tickets.count }
    var count: Int { tickets.count - head - gone }

    init(level: Int) { self.level = level }

    private func isWaiting(_ ticket: Ticket) -> Bool {
      (ticket.phase == .waiting || TransferMutation.leaverGetsATurn.isOn && ticket.phase == .over) && ticket.level == level
    }

    mutating func append(_ ticket: Ticket) { tickets.append(ticket) }

    mutating func popFirst() -> Ticket? {
      while head < tickets.count {
        let ticket = tickets[head]
        head += 1
        let isWaiting = self.isWaiting(ticket)
        if !isWaiting { gone -= 1 }
        if head > 64, head > tickets.count / 2 {
          tickets.removeFirst(head)
          head = 0
        }
        if isWaiting { return ticket }
      }
      tickets = []
      head = 0
      return nil
    }

    mutating func noteGone() {
      gone += 1
      guard gone > 64, gone > (tickets.count - head) / 2 else { return }
      tickets = tickets[head...].filter(isWaiting)
      head = 0
      gone = 0
    }
  }
}
