import Foundation

/// Prints what jobs have put out, each in one piece and in the order of their ends, on a thread of its own. So a reader that does not read
/// stops the printing and not the jobs.
final class OutputPrinter: Sendable {
  private struct Piece {
    let line: String
    let output: JobOutput?
    /// Before each line of the output, which has been printed as it came. The rest comes before the piece's own line. Nil: all of it comes
    /// after that.
    var prefix: [UInt8]?
    /// There is more to come.
    var isLive = false
  }

  private struct State {
    var pieces: [Piece] = []
    var isPrinting = false
    var isGivenUp = false
    /// Signalled when all has been printed, or it has been given up.
    var waiting: DispatchSemaphore?
    /// How long a reader has from when it is waited for; nil: for ever.
    var patience: DispatchTimeInterval?
  }

  private let state = Guarded(State())
  private let work = DispatchSemaphore(value: 0)
  private let didPrint: @Sendable (JobOutput) -> Void

  /// - Parameter didPrint: gets each output that has been printed.
  init(didPrint: @escaping @Sendable (JobOutput) -> Void) {
    self.didPrint = didPrint
    let thread = Thread { [self] in loop() }
    thread.name = "ownedops.printer"
    thread.start()
  }

  func print(_ line: String, _ output: JobOutput? = nil, prefix: [UInt8]? = nil) {
    add(Piece(line: line, output: output, prefix: prefix))
  }

  /// What the output has got by then, as whole lines.
  func printLines(of output: JobOutput, prefix: [UInt8]) { add(Piece(line: "", output: output, prefix: prefix, isLive: true)) }

  private func add(_ piece: Piece) {
    state.withLock { $0.pieces.append(piece) }
    work.signal()
  }

  /// Blocks until all has been printed.
  /// - Returns: false if that was given up.
  func finish() -> Bool {
    let isOver = DispatchSemaphore(value: 0)
    let (mustWait, patience) = state.withLock { state -> (Bool, DispatchTimeInterval?) in
      guard state.isPrinting || !state.pieces.isEmpty, !state.isGivenUp else { return (false, nil) }
      state.waiting = isOver
      return (true, state.patience)
    }
    if mustWait {
      if let patience { startGivingUp(after: patience) }
      isOver.wait()
    }
    return state.withLock { !$0.isGivenUp }
  }

  /// A reader that has not read all so long after this call and that of ``finish()``, whichever comes last, no longer keeps the tool.
  func giveUp(after time: DispatchTimeInterval) {
    let isWaiting = state.withLock { state in
      state.patience = time
      return state.waiting != nil
    }
    // Otherwise the time begins with the waiting, however late that is: it must not be over before there is something to give up.
    if isWaiting { startGivingUp(after: time) }
  }

  private func startGivingUp(after time: DispatchTimeInterval) {
    DispatchQueue.global().asyncAfter(deadline: .now() + time) { [self] in
      state.withLock { state in
        guard state.isPrinting || !state.pieces.isEmpty, let waiting = state.waiting else { return }
        state.isGivenUp = true
        waiting.signal()
      }
    }
  }

  private func loop() {
    while true {
      work.wait()
      let pieces = state.withLock { state in
        defer { state.pieces = [] }
        state.isPrinting = !state.pieces.isEmpty
        return state.pieces
      }
      for piece in pieces {
        Console.shared.writeInOnePiece { descriptor in
          let line = Array(piece.line.utf8)
          guard let output = piece.output else { return RawFile.writeAll(line, to: descriptor) }
          guard let prefix = piece.prefix else { return RawFile.writeAll(line, to: descriptor) ?? output.copy(to: descriptor) }
          return output.copyLines(prefix: prefix, to: descriptor, isLast: !piece.isLive) ?? RawFile.writeAll(line, to: descriptor)
        }
        if !piece.isLive, let output = piece.output { didPrint(output) }
      }
      state.withLock { state in
        state.isPrinting = false
        if state.pieces.isEmpty { state.waiting?.signal() }
      }
    }
  }
}
