import Foundation

/// What one job puts out, as it comes. It is in memory while it is little, then in a file without a name, and in the job's log.
///
/// Rules:
/// - The pump adds while a command runs. The job asks between its commands. The printer reads when all have ended.
/// - What can't be kept is remembered as ``failure``, and nothing is added after it.
/// - `printed` is the printer's: no other thread looks at it while there may be more.
final class JobOutput: Sendable {
  private struct State {
    var memory: [UInt8] = []
    var file: Int32 = -1
    var log: Int32
    var failure: String?
    /// How much has been printed while the job ran.
    var printed = 0
    /// Somebody has been told that there is something to print, and has not come yet.
    var isAnnounced = false
  }

  /// As much as a pipe holds, and more than most jobs put out.
  private static let mostInMemory = 1 << 16

  private let state: Guarded<State>
  private let logPath: String?
  private let memory: OutputMemory

  private let announce: (@Sendable (JobOutput) -> Void)?
  private let keepsLogOnly: Bool

  /// - Parameters:
  ///   - log: an open file for the same, which is closed with it.
  ///   - keepsLogOnly: nobody will print it from here.
  ///   - announce: told, while the job runs, that there is something to print with ``copyLines(prefix:to:isLast:)``.
  init(
    memory: OutputMemory, log: (path: String, descriptor: Int32)?, keepsLogOnly: Bool = false,
    announce: (@Sendable (JobOutput) -> Void)? = nil
  ) {
    self.memory = memory
    self.keepsLogOnly = keepsLogOnly
    self.announce = announce
    logPath = log?.path
    state = Guarded(State(log: log?.descriptor ?? -1))
  }

  /// What stands in a log to which nobody adds any more. A large one is not read before it is printed. Nil if it can't be read.
  init?(ofLog path: String, memory: OutputMemory) {
    let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    var status = stat()
    guard descriptor >= 0, fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
      if descriptor >= 0 { close(descriptor) }
      return nil
    }
    var content = State(file: descriptor, log: -1)
    let size = Int(status.st_size)
    if size <= Self.mostInMemory, memory.take(size) {
      content.memory = [UInt8](repeating: 0, count: size)
      content.file = -1
      let count = content.memory.withUnsafeMutableBytes { RawFile.fill($0, from: descriptor) }
      close(descriptor)
      memory.giveBack(size - max(0, count))
      content.memory.removeLast(size - max(0, count))
    }
    self.memory = memory
    keepsLogOnly = false
    announce = nil
    logPath = nil
    state = Guarded(content)
  }

  deinit { release() }

  /// Lets go of what it holds; nothing is kept any more.
  func release() {
    closeLog()
    state.withLock { state in
      if state.file >= 0 { close(state.file) }
      state.file = -1
      memory.giveBack(state.memory.count)
      state.memory = []
    }
  }

  /// Why not all of it could be kept; nil if it could.
  var failure: String? { state.withLock { $0.failure } }

  /// Whether it takes a descriptor until it has been printed.
  var isInFile: Bool { state.withLock { $0.file >= 0 } }

  func add(_ piece: UnsafeRawBufferPointer) {
    keep(piece)
    guard let announce else { return }
    let mustTell = state.withLock { state in
      defer { state.isAnnounced = true }
      return !state.isAnnounced
    }
    if mustTell { announce(self) }
  }

  private func keep(_ piece: UnsafeRawBufferPointer) {
    state.withLock { state in
      guard state.failure == nil else { return }
      if state.log >= 0, let error = RawFile.writeAll(piece, to: state.log) {
        state.failure = failedLog(error)
        return
      }
      guard !keepsLogOnly else { return }
      if state.file < 0, state.memory.count + piece.count <= Self.mostInMemory, memory.take(piece.count) {
        state.memory += piece
      } else {
        state.failure = addToFile(piece, &state)
      }
    }
  }

  private func addToFile(_ piece: UnsafeRawBufferPointer, _ state: inout State) -> String? {
    var error: Int32?
    if state.file < 0 {
      let file = TemporaryFile.open()
      error = file < 0 ? errno : RawFile.writeAll(state.memory, to: file)
      if error == nil {
        state.file = file
        memory.giveBack(state.memory.count)
        state.memory = []
      } else if file >= 0 {
        close(file)
      }
    }
    if error == nil { error = RawFile.writeAll(piece, to: state.file) }
    return error.map { "its output could not be kept in \(TemporaryFile.directory): \(RawFile.message($0))" }
  }

  /// No more comes. Some file systems find out late that there is no room.
  func closeLog() {
    state.withLock { state in
      guard state.log >= 0 else { return }
      let error = close(state.log) == 0 ? nil : Optional(errno)
      state.log = -1
      if let error, state.failure == nil { state.failure = failedLog(error) }
    }
  }

  private func failedLog(_ error: Int32) -> String {
    "its log \(logPath ?? "") could not be written: \(RawFile.message(error))"
  }

  /// Writes the lines that have come since the last time, each behind a prefix; no more than a piece at a time.
  /// - Parameter isLast: nothing follows; what is left is a line, too, though it has no end.
  /// - Returns: the error, or nil.
  func copyLines(prefix: [UInt8], to descriptor: Int32, isLast: Bool) -> Int32? {
    state.withLock { $0.isAnnounced = false }
    var buffer = [UInt8](repeating: 0, count: Self.mostInMemory)
    while true {
      let (piece, printed) = unprinted(&buffer)
      guard !piece.isEmpty else { return nil }
      let newline = UInt8(ascii: "\n")
      // A line that is longer than a piece is broken.
      let end = piece.lastIndex(of: newline).map { $0 + 1 } ?? (isLast || piece.count == buffer.count ? piece.endIndex : nil)
      guard let end else { return nil }
      var text: [UInt8] = []
      text.reserveCapacity(end + end / 4)
      for line in piece[..<end].split(separator: newline, omittingEmptySubsequences: false).dropLast(piece[end - 1] == newline ? 1 : 0) {
        text += prefix
        text += line
        text.append(newline)
      }
      if let error = RawFile.writeAll(text, to: descriptor) { return error }
      state.withLock { $0.printed = printed + end }
    }
  }

  private func unprinted(_ buffer: inout [UInt8]) -> (piece: ArraySlice<UInt8>, printed: Int) {
    let (memory, file, printed) = state.withLock { state in
      (state.file < 0 ? Array(state.memory.dropFirst(state.printed).prefix(buffer.count)) : [], state.file, state.printed)
    }
    guard file >= 0 else { return (memory[...], printed) }
    // Nobody closes it: the printer does, after this.
    let count = buffer.withUnsafeMutableBytes { RawFile.fill($0, from: file, at: printed) }
    return (buffer[..<max(0, count)], printed)
  }

  fileprivate var held: (memory: [UInt8], file: Int32) { state.withLock { ($0.memory, $0.file) } }

  /// Writes all that has been kept, with a newline at the end.
  /// - Returns: the error, or nil.
  func copy(to descriptor: Int32) -> Int32? {
    // Not under the lock: the reader may take its time, and nobody adds any more.
    let (memory, file) = held
    if file >= 0 { return RawFile.copyAll(from: file, to: descriptor, endsWithNewline: true) }
    if let error = RawFile.writeAll(memory, to: descriptor) { return error }
    guard let last = memory.last, last != UInt8(ascii: "\n") else { return nil }
    return RawFile.writeAll([UInt8(ascii: "\n")], to: descriptor)
  }
}

extension JobOutput {
  /// The end of what has been kept, of so many bytes at most.
  func tail(_ count: Int) -> String {
    let (memory, file) = held
    guard file >= 0 else { return String(decoding: memory.suffix(count), as: UTF8.self) }
    var status = stat()
    guard fstat(file, &status) == 0 else { return "" }
    var bytes = [UInt8](repeating: 0, count: min(count, Int(status.st_size)))
    let read = bytes.withUnsafeMutableBytes { pread(file, $0.baseAddress, $0.count, status.st_size - off_t($0.count)) }
    return String(decoding: bytes.prefix(max(0, read)), as: UTF8.self)
  }
}

/// How much output all jobs together keep in memory; more than that goes to files. Counted in bytes.
final class OutputMemory: Sendable {
  private let left: Guarded<Int>

  init(most: Int = 32 << 20) { left = Guarded(most) }

  func take(_ count: Int) -> Bool {
    left.withLock { left in
      guard left >= count else { return false }
      left -= count
      return true
    }
  }

  func giveBack(_ count: Int) { left.withLock { $0 += count } }
}
