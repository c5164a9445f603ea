import Foundation

/// What a runner and its keeper say to each other, over a pair of sockets.
///
/// A frame is its length (four bytes, of what follows), its kind (one), and its fields, in the order of the cases below. Numbers stand as
/// this machine has them; texts and bytes have their length before them.
enum KeeperRequest {
  /// Once, before all others: the owners of the file.
  case owners([KeptOwner])
  case start(id: UInt32, CommandRequest)
  case signal(id: UInt32, Int32)
  /// Nothing more will be started.
  case finish
  /// No grace from now on.
  case hurry
  /// The journal is another's.
  case disown
}

enum KeeperReply {
  case started(id: UInt32)
  case refused(id: UInt32, isShortage: Bool, String)
  case output(id: UInt32, ArraySlice<UInt8>)
  /// Behind all of its output.
  case exited(id: UInt32, ChildReaper.Exit, ProcessUsage?)
  /// The journal can't be written.
  case journalFailed(String)
  /// How many processes that commands have left behind are waited for.
  case leftBehind(Int)
  /// The last. Jobs whose exits could not be written down.
  case finished(unwritten: [String])
}

/// An owner, and what its end is known by.
struct KeptOwner {
  enum End {
    case process(pid_t, birth: String)
    case fileRemoved(String)
    /// In seconds, from when it is sent.
    case after(Double)
  }

  let name: String
  let parent: Int?
  let end: End?
}

/// Fields, one behind the other.
struct FrameWriter {
  private(set) var bytes: [UInt8] = [0, 0, 0, 0]

  init(kind: UInt8) { bytes.append(kind) }

  mutating func add<Number: BitwiseCopyable>(_ number: Number) { withUnsafeBytes(of: number) { bytes += $0 } }
  mutating func add(_ text: String) { add(Array(text.utf8)[...]) }
  mutating func add(_ text: String?) {
    add(UInt8(text == nil ? 0 : 1))
    if let text { add(text) }
  }
  mutating func add(_ piece: ArraySlice<UInt8>) {
    add(UInt32(piece.count))
    bytes += piece
  }
  mutating func add(_ texts: [String]) {
    add(UInt32(texts.count))
    for text in texts { add(text) }
  }

  /// The frame, with its length.
  var frame: [UInt8] {
    var frame = bytes
    withUnsafeBytes(of: UInt32(bytes.count - 4)) { for place in 0..<4 { frame[place] = $0[place] } }
    return frame
  }
}

/// Reads fields. What is not there is nought or empty: both ends are the same program.
struct FrameReader {
  private var rest: ArraySlice<UInt8>

  init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

  mutating func number<Number: FixedWidthInteger & BitwiseCopyable>(_ type: Number.Type) -> Number {
    let size = MemoryLayout<Number>.size
    guard rest.count >= size else { return 0 }
    defer { rest = rest.dropFirst(size) }
    return rest.withUnsafeBytes { $0.loadUnaligned(as: Number.self) }
  }
  mutating func bytes() -> ArraySlice<UInt8> {
    let count = min(Int(number(UInt32.self)), rest.count)
    defer { rest = rest.dropFirst(count) }
    return rest.prefix(count)
  }
  mutating func text() -> String { String(decoding: bytes(), as: UTF8.self) }
  mutating func optionalText() -> String? { number(UInt8.self) == 0 ? nil : text() }
  mutating func texts() -> [String] {
    let count = number(UInt32.self)
    return (0..<count).map { _ in text() }
  }
}

/// What has come of a stream of frames.
struct FrameBuffer {
  private var bytes: [UInt8] = []
  private var start = 0

  mutating func add(_ piece: UnsafeRawBufferPointer) {
    if start == bytes.count {
      bytes.removeAll(keepingCapacity: true)
      start = 0
    }
    bytes += piece
  }

  /// The next whole frame: its kind, and its fields.
  mutating func next() -> (kind: UInt8, fields: ArraySlice<UInt8>)? {
    guard bytes.count - start >= 4 else { return nil }
    let length = bytes[start...].withUnsafeBytes { Int($0.loadUnaligned(as: UInt32.self)) }
    guard length > 0, bytes.count - start >= 4 + length else { return nil }
    defer { start += 4 + length }
    return (bytes[start + 4], bytes[(start + 5)..<(start + 4 + length)])
  }

  /// Gives back what has been read; to be called now and then.
  mutating func compact() {
    guard start > 1 << 16 || start == bytes.count else { return }
    bytes.removeFirst(start)
    start = 0
  }
}

extension KeeperRequest {
  var frame: [UInt8] {
    var writer: FrameWriter
    switch self {
    case .owners(let owners):
      writer = FrameWriter(kind: 1)
      writer.add(UInt32(owners.count))
      for owner in owners { Self.add(owner, to: &writer) }
    case .start(let id, let request):
      writer = FrameWriter(kind: 2)
      writer.add(id)
      writer.add(Int32(request.owner ?? -1))
      writer.add(UInt32(request.attempt))
      writer.add(request.timeout.map { Int64(max(0, $0.inSeconds) * 1000) } ?? -1)
      writer.add(request.job)
      writer.add(request.command.words)
      writer.add(request.command.directory)
      writer.add(request.command.environment.flatMap { [$0.key, $0.value] })
    case .signal(let id, let number):
      writer = FrameWriter(kind: 3)
      writer.add(id)
      writer.add(number)
    case .finish: writer = FrameWriter(kind: 4)
    case .hurry: writer = FrameWriter(kind: 5)
    case .disown: writer = FrameWriter(kind: 6)
    }
    return writer.frame
  }

  private static func add(_ owner: KeptOwner, to writer: inout FrameWriter) {
    writer.add(owner.name)
    writer.add(Int32(owner.parent ?? -1))
    switch owner.end {
    case nil: writer.add(UInt8(0))
    case .process(let process, let birth):
      writer.add(UInt8(1))
      writer.add(process)
      writer.add(birth)
    case .fileRemoved(let path):
      writer.add(UInt8(2))
      writer.add(path)
    case .after(let seconds):
      writer.add(UInt8(3))
      writer.add(Int64(seconds * 1000))
    }
  }

  init?(_ frame: (kind: UInt8, fields: ArraySlice<UInt8>)) {
    var reader = FrameReader(frame.fields)
    switch frame.kind {
    case 1:
      let count = reader.number(UInt32.self)
      self = .owners((0..<count).map { _ in Self.owner(&reader) })
    case 2:
      let id = reader.number(UInt32.self)
      let owner = Int(reader.number(Int32.self))
      let attempt = Int(reader.number(UInt32.self))
      let milliseconds = reader.number(Int64.self)
      let job = reader.text()
      var command = ChildProcess.Command(words: reader.texts(), directory: reader.optionalText())
      let environment = reader.texts()
      for place in stride(from: 0, to: environment.count - 1, by: 2) { command.environment[environment[place]] = environment[place + 1] }
      self = .start(
        id: id,
        CommandRequest(
          command: command, job: job, attempt: attempt, owner: owner < 0 ? nil : owner,
          timeout: milliseconds < 0 ? nil : .milliseconds(milliseconds)))
    case 3: self = .signal(id: reader.number(UInt32.self), reader.number(Int32.self))
    case 4: self = .finish
    case 5: self = .hurry
    case 6: self = .disown
    default: return nil
    }
  }

  private static func owner(_ reader: inout FrameReader) -> KeptOwner {
    let name = reader.text()
    let parent = Int(reader.number(Int32.self))
    let end: KeptOwner.End? =
      switch reader.number(UInt8.self) {
      case 1: .process(reader.number(pid_t.self), birth: reader.text())
      case 2: .fileRemoved(reader.text())
      case 3: .after(Double(reader.number(Int64.self)) / 1000)
      default: nil
      }
    return KeptOwner(name: name, parent: parent < 0 ? nil : parent, end: end)
  }
}

extension KeeperReply {
  var frame: [UInt8] {
    var writer: FrameWriter
    switch self {
    case .started(let id):
      writer = FrameWriter(kind: 1)
      writer.add(id)
    case .refused(let id, let isShortage, let text):
      writer = FrameWriter(kind: 2)
      writer.add(id)
      writer.add(UInt8(isShortage ? 1 : 0))
      writer.add(text)
    case .output(let id, let piece):
      writer = FrameWriter(kind: 3)
      writer.add(id)
      writer.add(piece)
    case .exited(let id, let exit, let usage):
      writer = FrameWriter(kind: 4)
      writer.add(id)
      switch exit {
      case .status(let status):
        writer.add(UInt8(0))
        writer.add(status)
      case .signal(let signal):
        writer.add(UInt8(1))
        writer.add(signal)
      }
      writer.add(UInt8(usage == nil ? 0 : 1))
      if let usage {
        writer.add(Int64(usage.userSeconds * 1e6))
        writer.add(Int64(usage.systemSeconds * 1e6))
        writer.add(Int64(usage.peakMemory))
      }
    case .journalFailed(let text):
      writer = FrameWriter(kind: 5)
      writer.add(text)
    case .leftBehind(let count):
      writer = FrameWriter(kind: 6)
      writer.add(UInt32(count))
    case .finished(let unwritten):
      writer = FrameWriter(kind: 7)
      writer.add(unwritten)
    }
    return writer.frame
  }

  init?(_ frame: (kind: UInt8, fields: ArraySlice<UInt8>)) {
    var reader = FrameReader(frame.fields)
    switch frame.kind {
    case 1: self = .started(id: reader.number(UInt32.self))
    case 2: self = .refused(id: reader.number(UInt32.self), isShortage: reader.number(UInt8.self) != 0, reader.text())
    case 3: self = .output(id: reader.number(UInt32.self), reader.bytes())
    case 4:
      let id = reader.number(UInt32.self)
      let isSignal = reader.number(UInt8.self) != 0
      let code = reader.number(Int32.self)
      var usage: ProcessUsage?
      if reader.number(UInt8.self) != 0 {
        let (user, system) = (Double(reader.number(Int64.self)) / 1e6, Double(reader.number(Int64.self)) / 1e6)
        usage = ProcessUsage(userSeconds: user, systemSeconds: system, peakMemory: Int(reader.number(Int64.self)))
      }
      self = .exited(id: id, isSignal ? .signal(code) : .status(code), usage)
    case 5: self = .journalFailed(reader.text())
    case 6: self = .leftBehind(Int(reader.number(UInt32.self)))
    case 7: self = .finished(unwritten: reader.texts())
    default: return nil
    }
  }
}
