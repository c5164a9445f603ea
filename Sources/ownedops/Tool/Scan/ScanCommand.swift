import Foundation
import OwnedOperations

enum ScanCommand {
  static func run(_ arguments: Arguments) throws(UsageError) -> Int32 {
    let options = try ScanOptions(arguments)
    if options.compares { return try ScanComparison(options, arguments).run() }
    // The tables of the plan are gone when the jobs are made.
    System.returnLargeBlocks()
    let root = OwnerLifetime(name: "scan")
    return switch options.engine {
    case .owned: try run(OwnedEngine(root: root, workers: options.workers), root, options)
    case .operationqueue: try run(FoundationEngine(root: root, workers: options.workers), root, options)
    case .gcd: try run(DispatchEngine(root: root, workers: options.workers), root, options)
    }
  }

  private static func run<Engine: ScanEngine>(_ engine: Engine, _ lifetime: OwnerLifetime, _ options: ScanOptions) throws(UsageError)
    -> Int32
  {
    let console = Console.shared
    let pictures = try PictureFiles(options.pictures)
    let recorder = pictures.recorder
    let session = ScanSession(engine, options, recorder: recorder)
    let endReason = Guarded<String?>(nil)
    let end: @Sendable (String) -> Void = { reason in
      endReason.withLock { if $0 == nil { $0 = reason } }
      session.end()
    }
    let interruption = Interruption { signal, count in
      if count > 1 { console.exitAtOnce(128 + signal) }
      // Before the end, which may be the tool's: what has been said by then is written.
      console.noteLater("ownedops: interrupted: waiting for the jobs at work to stop, then showing what was found; once more ends at once")
      DispatchQueue.global(qos: .userInitiated).async { end("interrupted") }
    }
    defer { console.finishNotes() }
    let clock = ContinuousClock()
    let start = clock.now
    let isFinished = Guarded(false)
    if let budget = options.budget {
      DispatchQueue.global(qos: .userInitiated).asyncAfter(deadline: .now() + budget.inSeconds) {
        if !isFinished.withLock({ $0 }) { end("the budget of \(Shown.seconds(budget.inSeconds)) is used up") }
      }
    }
    let progress = options.isQuiet || !console.errorIsTerminal ? nil : ProgressLine { session.progress }

    let roots =
      options.roots.map { DirectoryNode(root: $0, lifetime: lifetime) }
      + options.givenFiles.map { DirectoryNode(root: $0.directory, lifetime: lifetime, givenNames: $0.names) }
    for problem in options.missing { session.census.note(error: problem.error, at: problem.path, isDirectory: false) }
    session.run(roots: roots) { stage in
      if !options.isQuiet, !console.errorIsTerminal { console.note(stage) }
    }
    isFinished.withLock { $0 = true }
    progress?.stop()
    let result = session.result(roots: roots, engineName: options.engine.rawValue, seconds: (clock.now - start).inSeconds)
    let reason = result.endedEarly ? endReason.withLock { $0 } : nil
    var isShown = true
    if options.isJSON {
      isShown = result.writeJSON(to: console, options, reason: reason)
    } else if options.isPlain {
      result.writePlain(to: console, options, reason: reason)
    } else {
      result.write(to: console, options, reason: reason)
    }
    let hasPictures = pictures.write() && isShown
    if reason != nil, let status = interruption.exitStatus { return status }
    guard hasPictures, console.failure == nil else { return ExitStatus.failure }
    if reason != nil { return ExitStatus.budgetUsedUp }
    return result.tally.unreadable > 0 ? ExitStatus.unreadable : ExitStatus.success
  }
}
