import Foundation

/// Reads what running commands put out, on one thread, as it comes.
///
/// Rules:
/// - A pipe belongs to the pump from `attach` to the return of `detach`; only the pump's thread reads it.
/// - What was in the pipe when `detach` was called has been added when it returns.
final class OutputPump: Sendable {
  private struct Source {
    let output: JobOutput
    /// Set when nothing more is wanted than what is there.
    var whenDrained: (@Sendable (_ isOpen: Bool) -> Void)?
    var hasEnded = false
  }

  private struct State {
    var sources: [Int32: Source] = [:]
    var isEnding = false
  }

  private let state = Guarded(State())
  /// A byte here wakes the thread.
  private let wake: (reading: Int32, writing: Int32)

  /// Nil with `errno` if the system gives no descriptors.
  init?() {
    guard let wake = Pipe.open() else { return nil }
    self.wake = wake
    for end in [wake.reading, wake.writing] { _ = fcntl(end, F_SETFL, O_NONBLOCK) }
    let thread = Thread { [self] in loop() }
    thread.name = "ownedops.output"
    thread.start()
  }

  /// From now on what comes from the pipe is added to the output.
  func attach(_ pipe: Int32, to output: JobOutput) {
    _ = fcntl(pipe, F_SETFL, O_NONBLOCK)
    state.withLock { $0.sources[pipe] = Source(output: output) }
    wakeUp()
  }

  /// Takes what is in the pipe now, and no more.
  /// - Returns: whether somebody still has its other end. The pipe is the caller's again.
  func detach(_ pipe: Int32) async -> Bool {
    await withCheckedContinuation { continuation in
      state.withLock { $0.sources[pipe]?.whenDrained = { continuation.resume(returning: $0) } }
      wakeUp()
    }
  }

  /// The thread ends; nothing is attached any more.
  func end() {
    state.withLock { $0.isEnding = true }
    wakeUp()
  }

  private func wakeUp() {
    // A full pipe will wake it as well.
    withUnsafeBytes(of: UInt8(0)) { _ = write(wake.writing, $0.baseAddress, 1) }
  }

  // MARK: The thread

  private static let pieceLength = 1 << 16
  /// Of one pipe, before others have their turn. Also what a pipe holds at most where it is not asked to hold more.
  private static let mostPieces = 16

  private func loop() {
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.pieceLength, alignment: 16)
    defer { buffer.deallocate() }
    var polled: [pollfd] = []
    while true {
      polled.removeAll(keepingCapacity: true)
      polled.append(pollfd(fd: wake.reading, events: Int16(POLLIN), revents: 0))
      let (isEnding, leaving) = state.withLock { state in
        var leaving: [Int32] = []
        for (pipe, source) in state.sources {
          if source.whenDrained != nil {
            leaving.append(pipe)
          } else if !source.hasEnded {
            polled.append(pollfd(fd: pipe, events: Int16(POLLIN), revents: 0))
          }
        }
        return (state.isEnding, leaving)
      }
      guard !isEnding else { break }
      for pipe in leaving { drain(pipe, buffer) }
      guard leaving.isEmpty else { continue }
      guard poll(&polled, nfds_t(polled.count), -1) > 0 else { continue }
      if polled[0].revents != 0 { while read(wake.reading, buffer.baseAddress, buffer.count) > 0 {} }
      for entry in polled.dropFirst() where entry.revents != 0 { _ = take(from: entry.fd, buffer) }
    }
    close(wake.reading)
    close(wake.writing)
  }

  private func drain(_ pipe: Int32, _ buffer: UnsafeMutableRawBufferPointer) {
    let isOpen = take(from: pipe, buffer)
    let source = state.withLock { $0.sources.removeValue(forKey: pipe) }
    source?.whenDrained?(isOpen && source?.hasEnded == false)
  }

  /// - Returns: false at the end of what is to come.
  private func take(from pipe: Int32, _ buffer: UnsafeMutableRawBufferPointer) -> Bool {
    guard let source = state.withLock({ $0.sources[pipe] }), !source.hasEnded else { return false }
    for _ in 0..<Self.mostPieces {
      let count = read(pipe, buffer.baseAddress, buffer.count)
      if count > 0 {
        source.output.add(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
      } else if count == 0 {
        state.withLock { $0.sources[pipe]?.hasEnded = true }
        return false
      } else if errno != EINTR {
        return true
      }
    }
    return true
  }
}
