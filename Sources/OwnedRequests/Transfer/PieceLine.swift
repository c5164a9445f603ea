import Foundation

/// Runs pieces one after the other. One that takes its time may leave: another thread goes on with the next, and nobody waits for it.
///
/// So what ends a request is decoded, and told, on the thread that has heard of the end. To wake another one for it took as long as all
/// else that is ours.
///
/// Protocol, all under the lock of `state`:
/// - A turn is what runs pieces: one at a time, on a queue of its own. `turn` counts them, `hasTurn` says whether there is one now.
/// - Who adds to a line without a turn makes one. A turn that finds no piece ends.
/// - `leave`, inside of a piece, ends the turn; if there are more pieces, it makes the next. The one that has ended sees another number.
/// - A turn's queue is used again once its last piece has returned.
final class PieceLine: Sendable {
  /// See `Guarded` for why it is not the closure itself.
  private struct Piece {
    let body: @Sendable () -> Void
  }

  private struct State {
    /// Those before `next` have run.
    var pieces: [Piece?] = []
    var next = 0
    var turn = 0
    var hasTurn = false
    var idleQueues: [DispatchQueue] = []

    mutating func takePiece() -> Piece? {
      guard next < pieces.count else {
        pieces.removeAll(keepingCapacity: pieces.capacity <= 256)
        next = 0
        return nil
      }
      defer { next += 1 }
      return pieces[next].take()
    }

    mutating func makeTurn() -> (number: Int, queue: DispatchQueue?) {
      hasTurn = true
      turn += 1
      return (turn, idleQueues.popLast())
    }
  }

  private static let mostIdleQueues = 16

  private let state = Guarded(State())

  func add(_ body: @escaping @Sendable () -> Void) {
    let turn = state.withLock { state in
      state.pieces.append(Piece(body: body))
      return state.hasTurn ? nil : state.makeTurn()
    }
    if let turn { begin(turn) }
  }

  /// Inside of a piece: what comes after it waits for it no longer.
  func leave() {
    let turn = state.withLock { state in
      state.hasTurn = false
      return state.next < state.pieces.count ? state.makeTurn() : nil
    }
    if let turn { begin(turn) }
  }

  // A serial queue brings a thread of its own, however many of the pool's wait for something.
  private func begin(_ turn: (number: Int, queue: DispatchQueue?)) {
    let queue = turn.queue ?? DispatchQueue(label: "OwnedRequests.pieces", qos: .userInitiated)
    queue.async { [self] in
      run(turn.number)
      state.withLock { if $0.idleQueues.count < Self.mostIdleQueues { $0.idleQueues.append(queue) } }
    }
  }

  private func run(_ number: Int) {
    while true {
      let piece = state.withLock { state -> Piece? in
        guard state.hasTurn, state.turn == number else { return nil }
        let piece = state.takePiece()
        if piece == nil { state.hasTurn = false }
        return piece
      }
      guard let piece else { return }
      piece.body()
    }
  }
}
