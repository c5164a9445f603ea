import Foundation
import OwnedOperations

/// One run of a graph, from the first owner to the last process.
final class RunSession: Sendable {
  private final class Owner: OperationOwner, Sendable {
    let lifetimeToken: OwnerLifetime.Token
    init(name: String, parent: OwnerLifetime) { lifetimeToken = OwnerLifetime.Token(name: name, parent: parent) }
  }

  private struct State {
    var operations: [JobOperation] = []
    var observations: [OperationObservation] = []
    var firstFailure: String?
    /// Why an owner ended by itself, by place.
    var endings: [Int: String] = [:]
    var isInterrupted = false
  }

  private let file: RunFile
  private let options: RunOptions
  private let root = OwnerLifetime(name: "run")
  private let owners: [Owner]
  private let gates: [OwnerGate?]
  private let queue: OwnerScopedQueue
  private let watch = OwnerWatch()
  private let state = Guarded(State())
  private let logs: JobLogs?

  let processGuard: ProcessGuard?
  let recorder: JobRecorder?
  var grace: Duration { options.grace }

  init(_ file: RunFile, _ options: RunOptions) throws(UsageError) {
    self.file = file
    self.options = options
    logs = if let directory = options.logDirectory { try JobLogs(directory: directory) } else { nil }
    recorder = options.pictures.recorder
    processGuard = ProcessGuard()
    let queue = OwnerScopedQueue(name: "ownedops.run", maxConcurrentOperationCount: options.jobs)
    self.queue = queue
    gates = file.owners.map { owner in owner.mostConcurrent.map { OwnerGate(limit: $0, queue: queue) } }
    owners = Self.makeOwners(file.owners, root: root)
  }

  /// Parents first, whatever the order in the file.
  private static func makeOwners(_ specifications: [RunFile.Owner], root: OwnerLifetime) -> [Owner] {
    var made: [Owner?] = Array(repeating: nil, count: specifications.count)
    for place in specifications.indices {
      var line = [place]
      while let last = line.last, made[last] == nil, let parent = specifications[last].parent, made[parent] == nil { line.append(parent) }
      for place in line.reversed() where made[place] == nil {
        let parent = specifications[place].parent.flatMap { made[$0] }
        made[place] = Owner(name: specifications[place].name, parent: parent?.lifetime ?? root)
      }
    }
    return made.compactMap { $0 }
  }

  // MARK: Running

  /// Blocks until every job has finished and no process is left.
  func run() -> RunSummary {
    for (place, owner) in file.owners.enumerated() {
      guard let condition = owner.end else { continue }
      if !watch.add(condition, end: { [weak self] in self?.end(place, condition) }) { end(place, condition) }
    }
    let operations = makeOperations()
    let isFinished = DispatchSemaphore(value: 0)
    let last = OwnedBlockOperation(lifetime: OwnerLifetime(name: "summary")) { isFinished.signal() }
    for operation in operations { last.addDependency(operation) }
    state.withLock { $0.operations = operations }
    submit(operations)
    queue.addOperation(last)
    watch.start()
    isFinished.wait()
    Orphans.killAll(except: processGuard?.process)
    return summary(operations)
  }

  private func makeOperations() -> [JobOperation] {
    let operations = file.jobs.enumerated().map { place, job in
      JobOperation(job, place: place, lifetime: job.owner.map { owners[$0].lifetime } ?? root, session: self)
    }
    for (operation, job) in zip(operations, file.jobs) {
      for place in job.after { operation.addDependency(operations[place]) }
    }
    return operations
  }

  private func submit(_ operations: [JobOperation]) {
    var observations: [OperationObservation] = []
    var direct: [JobOperation] = []
    direct.reserveCapacity(operations.count)
    for operation in operations {
      if let gate = gate(of: operation.job) { observations.append(gate.receive(operation)) } else { direct.append(operation) }
    }
    state.withLock { $0.observations = observations }
    while true {
      // An owner that ends takes its jobs along; the queue refuses a list that holds one of them.
      direct.removeAll { $0.isFinished || !$0.lifetime.isAlive }
      do throws(OwnerScopedQueueError) {
        try queue.enqueue(direct)
        return
      } catch .ownerEnded {
      } catch .alreadyFinished {
      } catch {
        // The file has been checked for everything else; a job that came to no queue would never finish.
        for operation in direct {
          operation.cancel()
          operation.start()
        }
        return
      }
    }
  }

  private func gate(of job: RunFile.Job) -> OwnerGate? { job.owner.flatMap { gates[$0] } }

  // MARK: Ends

  private func end(_ place: Int, _ condition: RunFile.EndCondition) {
    let reason =
      switch condition {
      case .process(let process): "process \(process) has exited"
      case .fileRemoved(let path): "\(path) has gone"
      case .after(let time): "\(Shown.seconds(time.inSeconds)) have passed"
      }
    state.withLock { $0.endings[place] = reason }
    recorder?.mark("\(file.owners[place].name) ended")
    owners[place].lifetime.end()
  }

  /// Ends all owners; the second time, kills what is left without grace.
  func interrupt(again: Bool) {
    state.withLock { $0.isInterrupted = true }
    if again {
      for operation in state.withLock({ $0.operations }) { operation.kill() }
    } else {
      recorder?.mark("interrupted")
      root.end()
    }
  }

  // MARK: For jobs

  /// Set when a job has failed and the rest should not begin.
  var reasonNotToStart: String? {
    state.withLock { state in
      guard !options.keepsGoing, let failed = state.firstFailure else { return nil }
      return "\(failed) has failed"
    }
  }

  func jobFailed(_ operation: JobOperation) {
    state.withLock { if $0.firstFailure == nil { $0.firstFailure = operation.job.name } }
  }

  func didEnd(_ operation: JobOperation) { gate(of: operation.job)?.didEnd() }

  func ownerName(of job: RunFile.Job) -> String { job.owner.map { file.owners[$0].name } ?? "run" }

  /// Why the job has been cancelled.
  func explanation(of operation: JobOperation) -> String {
    if case .dependencyFailed(let name)? = operation.cancellationReason { return "\(name) did not succeed" }
    return state.withLock { state in
      if state.isInterrupted { return "interrupted" }
      var place = operation.job.owner
      while let current = place {
        if let reason = state.endings[current] { return "its owner \(file.owners[current].name) ended: \(reason)" }
        place = file.owners[current].parent
      }
      return "its owner ended"
    }
  }

  /// Prints what a job has put out, in one piece with how it ended.
  func show(_ operation: JobOperation, _ result: JobOperation.Result, seconds: Double, output: Int32?) {
    if let output { logs?.write(operation.job.name, contentsOf: output) }
    if options.isQuiet, case .succeeded = result { return }
    let line = Self.line(operation.job.name, result, seconds)
    if let output { Console.shared.write(line, contentsOf: output) } else { Console.shared.write(line) }
  }

  private static func line(_ name: String, _ result: JobOperation.Result, _ seconds: Double?) -> String {
    let console = Console.shared
    let shown = Array(name.utf8).escapedName
    let time = seconds.map { " (\(Shown.seconds($0)))" } ?? ""
    return switch result {
    case .succeeded: "\(console.coloured("succeeded", "32")) \(shown)\(time)\n"
    case .failed(let reason): "\(console.coloured("failed", "31")) \(shown): \(reason)\(time)\n"
    case .cancelled(let reason): "\(console.coloured("cancelled", "33")) \(shown): \(reason)\(time)\n"
    }
  }

  // MARK: Summary

  private static let mostCancelledShown = 50

  private func summary(_ operations: [JobOperation]) -> RunSummary {
    var summary = RunSummary()
    summary.logFailures = logs?.failureCount ?? 0
    var text = ""
    for operation in operations {
      let result = operation.result ?? .cancelled(explanation(of: operation))
      switch result {
      case .succeeded: summary.succeeded += 1
      case .failed: summary.failed.append(operation.job.name)
      case .cancelled:
        summary.cancelled += 1
        // What had begun has been shown.
        if operation.result == nil || operation.wasRefused {
          recorder?.cancelled(name: operation.job.name, owner: ownerName(of: operation.job), at: operation.cancellationTime)
          summary.neverBegun += 1
          if summary.neverBegun <= Self.mostCancelledShown { text += Self.line(operation.job.name, result, nil) }
        }
      }
    }
    if summary.neverBegun > Self.mostCancelledShown {
      text += "and \(Shown.count(summary.neverBegun - Self.mostCancelledShown)) more cancelled\n"
    }
    if !options.isQuiet { Console.shared.write(text) }
    return summary
  }
}

struct RunSummary: Sendable {
  var succeeded = 0
  var failed: [String] = []
  var cancelled = 0
  var neverBegun = 0
  var logFailures = 0

  var isSuccess: Bool { failed.isEmpty && cancelled == 0 && logFailures == 0 }

  var line: String {
    var line = "\(Shown.count(succeeded)) succeeded, \(Shown.count(failed.count)) failed, \(Shown.count(cancelled)) cancelled"
    if !failed.isEmpty {
      line += "; failed: " + failed.prefix(20).map { Array($0.utf8).escapedName }.joined(separator: ", ")
      if failed.count > 20 { line += " and \(Shown.count(failed.count - 20)) more" }
    }
    return line + "\n"
  }
}
