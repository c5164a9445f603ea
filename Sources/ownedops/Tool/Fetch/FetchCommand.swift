import Foundation
import OwnedRequests

enum FetchCommand {
  static func run(_ arguments: Arguments) throws(UsageError) -> Int32 {
    let options = try FetchOptions(arguments)
    let plan = try FetchPlan(options)
    let pictures = try PictureFiles(options.pictures, apartFrom: options.lists)
    try makeDirectories(for: plan, options)
    let console = Console.shared
    let showsProgress = !options.isQuiet && console.errorIsTerminal
    let session = FetchSession(plan, options, recorder: pictures.recorder, tellsProgress: showsProgress)
    let interruption = Interruption { signal, count in
      if count > 1 { Console.shared.exitAtOnce(128 + signal) }
      DispatchQueue.global(qos: .userInitiated).async { session.end("interrupted") }
    }
    if let budget = options.budget {
      DispatchQueue.global(qos: .userInitiated).asyncAfter(deadline: .now() + budget.inSeconds) {
        session.end("the budget of \(Shown.seconds(budget.inSeconds)) is used up")
      }
    }
    let progress = showsProgress ? ProgressLine { session.progress } : nil
    let result = session.run()
    progress?.stop()
    var isShown = true
    if options.isJSON { isShown = result.writeJSON(to: console) } else { result.write(to: console, isQuiet: options.isQuiet) }
    let hasPictures = pictures.write() && isShown
    // A signal that came when all was there has changed nothing.
    if !result.isComplete, let status = interruption.exitStatus { return status }
    return result.isComplete && hasPictures && console.failure == nil ? ExitStatus.success : ExitStatus.failure
  }

  private static func makeDirectories(for plan: FetchPlan, _ options: FetchOptions) throws(UsageError) {
    var made: Set<String> = []
    for path in [FetchPlan.joined(options.directory, "x")] + plan.items.map(\.path) {
      let directory = URL(fileURLWithPath: path).deletingLastPathComponent().path
      guard made.insert(directory).inserted else { continue }
      do { try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true) } catch {
        throw UsageError("fetch: can't make the directory \(directory): \(reason(for: error))")
      }
    }
  }

  /// The system's, as Foundation has kept it. `errno` may be that of a later call.
  static func reason(for error: any Error) -> String {
    let underlying = ((error as NSError).userInfo[NSUnderlyingErrorKey] as? any Error).map { $0 as NSError }
    guard let underlying, underlying.domain == NSPOSIXErrorDomain else { return error.localizedDescription }
    return RawFile.message(Int32(underlying.code))
  }
}

/// Checks of files that are there already.
enum FileDigest {
  struct Failure: Error, CustomStringConvertible { let description: String }

  static func sha256(of path: String, shouldStop: () -> Bool) throws -> String {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw Failure(description: RawFile.message(errno)) }
    defer { close(descriptor) }
    var hasher = SHA256()
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 16)
    defer { buffer.deallocate() }
    while !shouldStop() {
      let count = RawFile.fill(buffer, from: descriptor)
      guard count >= 0 else { throw Failure(description: RawFile.message(Int32(-count))) }
      hasher.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
      if count < buffer.count { return SHA256.hexadecimal(hasher.finish()) }
    }
    throw CancellationError()
  }
}
