import Foundation

/// All timers of the process, the earliest first, and one source of Dispatch's for it.
///
/// Protocol, all under the lock of `state`:
/// - The source goes off at `armed`, which is not later than the deadline of any timer in the line. Only an earlier one sets it anew.
/// - Whoever takes a call out of `calls`, because it is due or to cancel it, has it. It is made, or released, outside the lock.
/// - A cancelled entry stays in the line until it is reached, or half of the line is such.
final class TimerLine: Sendable {
  /// What a timer is cancelled with.
  struct Place: Hashable, Sendable {
    fileprivate let number: UInt64
  }

  private struct Entry {
    let deadline: DispatchTime
    let place: Place
  }

  /// See `Guarded` for why it is not the closure itself.
  private struct Call {
    let body: @Sendable () -> Void
  }

  private struct State {
    /// A heap: no entry is earlier than the one at half its place.
    var entries: [Entry] = []
    /// Of those that are neither due nor cancelled.
    var calls: [Place: Call] = [:]
    var lastNumber: UInt64 = 0
    var armed = DispatchTime.distantFuture
  }

  static let shared = TimerLine()

  private let state = Guarded(State())
  // A source may be used from any thread.
  nonisolated(unsafe) private let source: any DispatchSourceTimer

  init() {
    source = DispatchSource.makeTimerSource(queue: DispatchQueue(label: "OwnedRequests.timers", qos: .userInitiated))
    source.setEventHandler { [weak self] in SharedThread.run { self?.callDue() } }
    source.schedule(deadline: .distantFuture)
    source.activate()
  }

  /// Logarithmic time.
  func add(deadline: DispatchTime, _ body: @escaping @Sendable () -> Void) -> Place {
    state.withLock { state in
      state.lastNumber += 1
      let place = Place(number: state.lastNumber)
      state.calls[place] = Call(body: body)
      state.entries.append(Entry(deadline: deadline, place: place))
      Self.moveUp(&state.entries, from: state.entries.count - 1)
      arm(&state)
      return place
    }
  }

  /// Amortised constant time.
  func cancel(_ place: Place) {
    var unused: Call?
    state.withLock { state in
      unused = state.calls.removeValue(forKey: place)
      guard unused != nil, state.entries.count - state.calls.count > max(64, state.entries.count / 2) else { return }
      state.entries = state.entries.filter { state.calls[$0.place] != nil }.sorted { $0.deadline < $1.deadline }
    }
    withExtendedLifetime(unused) {}
  }

  /// For tests: how many there are, cancelled ones that are still in line included.
  var count: Int { state.withLock { $0.entries.count } }

  private func callDue() {
    var due: [Call] = []
    state.withLock { state in
      state.armed = .distantFuture
      let now = DispatchTime.now()
      while let first = state.entries.first, first.deadline <= now || state.calls[first.place] == nil {
        Self.removeFirst(&state.entries)
        if let call = state.calls.removeValue(forKey: first.place) { due.append(call) }
      }
      arm(&state)
    }
    for call in due { call.body() }
  }

  private func arm(_ state: inout State) {
    guard let first = state.entries.first, first.deadline < state.armed else { return }
    state.armed = first.deadline
    source.schedule(deadline: first.deadline)
  }

  // MARK: The heap

  private static func moveUp(_ entries: inout [Entry], from place: Int) {
    var place = place
    while place > 0, entries[place].deadline < entries[(place - 1) / 2].deadline {
      entries.swapAt(place, (place - 1) / 2)
      place = (place - 1) / 2
    }
  }

  private static func removeFirst(_ entries: inout [Entry]) {
    entries.swapAt(0, entries.count - 1)
    entries.removeLast()
    var place = 0
    while true {
      var least = place
      for child in [2 * place + 1, 2 * place + 2] where child < entries.count && entries[child].deadline < entries[least].deadline {
        least = child
      }
      guard least != place else { return }
      entries.swapAt(place, least)
      place = least
    }
  }
}
