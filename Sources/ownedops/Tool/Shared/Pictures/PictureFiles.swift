import Foundation

/// `--timeline` and `--trace`.
struct PictureOptions: Sendable {
  fileprivate var timeline: String?
  fileprivate var trace: String?

  static let syntax: [CommandSyntax.Option] = [
    .init(names: ["--timeline"], value: "FILE", help: "draw an SVG picture of what ran when"),
    .init(names: ["--trace"], value: "FILE", help: "write Chrome trace events, for ui.perfetto.dev"),
  ]

  init() {}

  init(_ arguments: Arguments) {
    timeline = arguments.text("--timeline")
    trace = arguments.text("--trace")
  }
}

/// The files for pictures. They are opened before anything runs, so that a path that can't be written is known then. They are written when
/// all is over.
final class PictureFiles: Sendable {
  struct File {
    let path: String
    let descriptor: Int32
    /// It was not there before.
    let isNew: Bool
  }

  /// Nil if no picture is wanted.
  let recorder: JobRecorder?
  private let timeline: File?
  private let trace: File?

  /// - Parameter others: files that are read, and not to be written over.
  init(_ options: PictureOptions, apartFrom others: [String] = []) throws(UsageError) {
    var taken: [(identity: FileIdentity, name: String)] = []
    timeline = try options.timeline.map { path throws(UsageError) in try Self.open(path, "--timeline", &taken, apartFrom: others) }
    do throws(UsageError) {
      trace = try options.trace.map { path throws(UsageError) in try Self.open(path, "--trace", &taken, apartFrom: others) }
    } catch {
      // Nothing will be drawn.
      if let timeline { Self.forget(timeline) }
      throw error
    }
    recorder = timeline == nil && trace == nil ? nil : JobRecorder()
  }

  deinit {
    for file in [timeline, trace] { if let file { close(file.descriptor) } }
  }

  /// - Parameters:
  ///   - taken: what has been opened before, to which this is added.
  ///   - others: must be other files, also if they are not there yet.
  static func open(
    _ path: String, _ option: String, _ taken: inout [(identity: FileIdentity, name: String)], apartFrom others: [String]
  ) throws(UsageError) -> File {
    let flags = O_WRONLY | O_CLOEXEC
    var descriptor = Foundation.open(path, flags | O_CREAT | O_EXCL, 0o666)
    let isNew = descriptor >= 0
    // There already, or a link to where there is nothing yet.
    if !isNew, errno == EEXIST { descriptor = Foundation.open(path, flags | O_CREAT, 0o666) }
    guard descriptor >= 0 else { throw UsageError("\(option): can't create \(path): \(RawFile.message(errno))") }
    let file = File(path: path, descriptor: descriptor, isNew: isNew)
    var status = stat()
    guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return file }
    let identity = FileIdentity(status)
    // Only now: one of them may have come into being just here.
    let inputs = others.compactMap { path -> (identity: FileIdentity, name: String)? in
      var status = stat()
      return stat(path, &status) == 0 ? (FileIdentity(status), "the input") : nil
    }
    if let other = (taken + inputs).first(where: { $0.identity == identity }) {
      forget(file)
      throw UsageError("\(option): \(path) is the file of \(other.name), too; give another")
    }
    taken.append((identity, option))
    return file
  }

  private static func forget(_ file: File) {
    close(file.descriptor)
    if file.isNew { unlink(file.path) }
  }

  var paths: [String] { [timeline, trace].compactMap { $0?.path } }

  /// - Returns: false if one could not be written, which has been said.
  func write() -> Bool {
    guard let record = recorder?.record else { return true }
    var isComplete = true
    if let timeline { isComplete = Self.write(Array(TimelinePicture(record).svg.utf8), to: timeline) && isComplete }
    if let trace { isComplete = Self.write(Array(TraceDocument(record).json.utf8), to: trace) && isComplete }
    return isComplete
  }

  static func write(_ bytes: [UInt8], to file: File) -> Bool {
    // What is no regular file has no length to be cut; writing tells what is wrong.
    _ = ftruncate(file.descriptor, 0)
    guard let error = RawFile.writeAll(bytes, to: file.descriptor) else { return true }
    Console.shared.note("ownedops: can't write \(file.path): \(RawFile.message(error))")
    return false
  }
}
