import Foundation
import OwnedOperations

enum ScanCommand {
  static func run(_ arguments: Arguments) throws(UsageError) -> Int32 {
    let options = try ScanOptions(arguments)
    if options.compares { return try ScanComparison(options, arguments).run() }
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
    let recorder = options.pictures.recorder
    let session = ScanSession(engine, options, recorder: recorder)
    let endReason = Guarded<String?>(nil)
    let end: @Sendable (String) -> Void = { reason in
      endReason.withLock { if $0 == nil { $0 = reason } }
      session.end()
    }
    let interruption = Interruption { signal, count in
      if count > 1 { _exit(128 + signal) }
      DispatchQueue.global(qos: .userInitiated).async { end("interrupted") }
    }
    let clock = ContinuousClock()
    let start = clock.now
    let isFinished = Guarded(false)
    if let budget = options.budget {
      DispatchQueue.global(qos: .userInitiated).asyncAfter(deadline: .now() + budget.inSeconds) {
        if !isFinished.withLock({ $0 }) { end("the budget of \(Shown.seconds(budget.inSeconds)) is used up") }
      }
    }
    let progress = options.isQuiet || !console.errorIsTerminal ? nil : ProgressLine { session.progress }

    let roots = options.roots.map { DirectoryNode(root: $0, lifetime: lifetime) }
    session.run(roots: roots) { stage in
      if !options.isQuiet, !console.errorIsTerminal { console.note(stage) }
    }
    isFinished.withLock { $0 = true }
    progress?.stop()
    let result = session.result(roots: roots, engineName: options.engine.rawValue, seconds: (clock.now - start).inSeconds)
    let reason = result.endedEarly ? endReason.withLock { $0 } : nil
    if options.isJSON {
      result.writeJSON(to: console, options, reason: reason)
    } else {
      result.write(to: console, options, reason: reason)
    }
    let hasPictures = options.pictures.write(recorder)
    if reason != nil, let status = interruption.exitStatus { return status }
    return hasPictures ? Tool.ExitStatus.success : Tool.ExitStatus.failure
  }
}

/// Shows a line ten times a second.
final class ProgressLine: Sendable {
  private let queue = DispatchQueue(label: "ownedops.progress")
  private let timer: Guarded<any DispatchSourceTimer>

  init(_ line: @escaping @Sendable () -> String) {
    let timer = DispatchSource.makeTimerSource(queue: queue)
    self.timer = Guarded(timer)
    timer.schedule(deadline: .now() + 0.1, repeating: 0.1)
    timer.setEventHandler { Console.shared.progress(line()) }
    timer.resume()
  }

  func stop() {
    // On the queue, so that a line that is being written comes before the line is wiped out, and none after.
    queue.sync {
      timer.withLock { $0.cancel() }
      Console.shared.clearProgress()
    }
  }
}
