import Foundation
import OwnedOperations
import OwnedRequests

/// One run of downloads. Every host is an owner; all of them end with the root.
///
/// A list may be long. So for each host only as many operations are made as keep it busy, and the next when one is over.
///
/// Protocol of an item: waiting ──▶ under way ──▶ over, or at once over. `over` is written once, by the task that waits for the item.
final class FetchSession: Sendable {
  private struct Course {
    var mark: JobRecorder.Mark?
    var start: ContinuousClock.Instant?
    var received: Int64 = 0
    var observation: OperationObservation?
  }

  private struct State {
    var courses: [Course]
    var outcomes: [FetchOutcome?]
    var claimed: Set<String>
    var underWay = 0
    var over = 0
    /// Of items that are over.
    var received: Int64 = 0
    var endTime: Double?
    var endReason: String?
  }

  private let plan: FetchPlan
  private let options: FetchOptions
  private let recorder: JobRecorder?
  private let root = OwnerLifetime(name: "fetch")
  private let hosts: [String: OwnerLifetime]
  private let client: RequestClient
  private let queue: OwnerScopedQueue
  private let start = ContinuousClock.now
  private let state: Guarded<State>
  private let tellsProgress: Bool

  init(_ plan: FetchPlan, _ options: FetchOptions, recorder: JobRecorder?, tellsProgress: Bool) {
    self.plan = plan
    self.options = options
    self.recorder = recorder
    self.tellsProgress = tellsProgress
    let root = root
    hosts = Dictionary(uniqueKeysWithValues: Set(plan.items.map(\.host)).map { ($0, OwnerLifetime(name: $0, parent: root)) })
    client = RequestClient(configuration: .ephemeral)
    client.maxConcurrentRequestsPerHost = options.perHost
    queue = OwnerScopedQueue(name: "ownedops.fetch", maxConcurrentOperationCount: Self.mostDownloads(options))
    // A host that is slow, or has most of the files, leaves room for others.
    queue.maxConcurrentOperationCountPerOwner = options.perHost
    queue.ownerFairness = .roundRobin
    let count = plan.items.count
    state = Guarded(
      State(
        courses: Array(repeating: Course(), count: count), outcomes: Array(repeating: nil, count: count), claimed: plan.claimed))
  }

  /// A download has a connection, two files, and what its session watches them with.
  private static func mostDownloads(_ options: FetchOptions) -> Int {
    let limit = DescriptorLimit.current
    let most = limit == .max ? Int.max : max(1, (limit - 32) / 6)
    if most < options.jobs { Console.shared.note("ownedops: \(Shown.count(most, "download")) at a time, because of ulimit -n") }
    return min(options.jobs, most)
  }

  // MARK: Running

  /// Blocks until all is over.
  func run() -> FetchResult {
    let isFinished = DispatchSemaphore(value: 0)
    var hosts: [String: [Int]] = [:]
    for place in plan.items.indices { hosts[plan.items[place].host, default: []].append(place) }
    let places = Array(hosts.values)
    Task {
      await withTaskGroup(of: Void.self) { group in
        for places in places { group.addTask { await self.follow(places) } }
      }
      isFinished.signal()
    }
    isFinished.wait()
    let (outcomes, reason) = state.withLock { ($0.outcomes, $0.endReason) }
    return FetchResult(
      items: plan.items, outcomes: outcomes.map { $0 ?? FetchOutcome(kind: .cancelled) }, repetitions: plan.repetitions,
      seconds: (ContinuousClock.now - start).inSeconds, endReason: reason)
  }

  /// The items of one host. They are queued here, in the order of the list; tasks come in any.
  private func follow(_ places: [Int]) async {
    await withTaskGroup(of: Void.self) { group in
      var rest = places[...]
      func addNext() {
        guard let place = rest.popFirst() else { return }
        let work = makeWork(place)
        group.addTask { await self.follow(place, work) }
      }
      for _ in 0..<max(16, 2 * min(options.perHost, options.jobs)) { addNext() }
      while await group.next() != nil { addNext() }
    }
  }

  /// Ends all owners. Any thread.
  func end(_ reason: String) {
    let isFirst = state.withLock { state in
      defer {
        state.endReason = state.endReason ?? reason
        state.endTime = state.endTime ?? recorder?.now
      }
      return state.endReason == nil
    }
    if isFirst { recorder?.mark("owners ended") }
    root.end()
  }

  private enum Work: Sendable {
    case download(RequestOperation<URL>)
    /// The SHA-256 of what is there.
    case check(OwnedResultOperation<String>)
    /// Nothing is to be done.
    case over(FetchOutcome)

    var operation: OwnedOperation? {
      switch self {
      case .download(let operation): operation
      case .check(let operation): operation
      case .over: nil
      }
    }
  }

  private func makeWork(_ place: Int) -> Work {
    let item = plan.items[place]
    let lifetime = hosts[item.host] ?? root
    guard lifetime.isAlive else { return .over(FetchOutcome(kind: .cancelled)) }
    var work: Work
    var status = stat()
    if stat(item.path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR {
      return .over(FetchOutcome(kind: .failed("there is a directory of that name")))
    } else if !options.overwrites, access(item.path, F_OK) == 0 {
      guard item.sha256 != nil else { return .over(FetchOutcome(kind: .kept, bytes: Int(status.st_size))) }
      let path = item.path
      work = .check(OwnedResultOperation(lifetime: lifetime) { try FileDigest.sha256(of: path, shouldStop: { !lifetime.isAlive }) })
    } else {
      work = .download(
        client.downloadOperation(
          for: item.request, to: URL(fileURLWithPath: item.path), lifetime: lifetime,
          expecting: DownloadExpectation(sha256: item.sha256)))
    }
    guard let operation = work.operation else { return work }
    operation.name = item.path
    let observation = operation.observe(\.isExecuting, options: [.new]) { [weak self] _, change in
      if change.newValue == true { self?.didBegin(place) }
    }
    state.withLock { $0.courses[place].observation = observation }
    do { try queue.enqueue([operation]) } catch {
      // Its owner has ended. It finishes without having run.
      operation.cancel()
      if !operation.isFinished { operation.start() }
    }
    return work
  }

  private func didBegin(_ place: Int) {
    let mark = recorder?.begin()
    state.withLock { state in
      guard state.courses[place].start == nil, state.outcomes[place] == nil else { return }
      state.courses[place].mark = mark
      state.courses[place].start = .now
      state.underWay += 1
    }
  }

  // MARK: Outcomes

  private func follow(_ place: Int, _ work: Work) async {
    let meter = watch(work, place)
    let outcome = await outcome(of: work, plan.items[place])
    meter?.cancel()
    finish(place, outcome)
  }

  /// Counts the bytes of a download as they come.
  private func watch(_ work: Work, _ place: Int) -> Task<Void, Never>? {
    guard tellsProgress, case .download(let operation) = work else { return nil }
    return Task {
      for await progress in operation.progress {
        state.withLock { if $0.outcomes[place] == nil { $0.courses[place].received = progress.bytesReceived } }
      }
    }
  }

  private func outcome(of work: Work, _ item: FetchItem) async -> FetchOutcome {
    switch work {
    case .over(let outcome): return outcome
    case .check(let operation):
      do {
        let digest = try await operation.value
        guard digest != item.sha256 else { return FetchOutcome(kind: .kept, bytes: Self.size(of: item.path)) }
        return FetchOutcome(kind: .failed("it is there already with the SHA-256 \(digest), not \(item.sha256 ?? ""); give --overwrite"))
      } catch {
        if case .cancelled? = operation.outcome { return FetchOutcome(kind: .cancelled) }
        return FetchOutcome(kind: .failed("it is there already, and can't be read: \(error)"))
      }
    case .download(let operation):
      do {
        let response = try await operation.value
        var outcome = FetchOutcome(kind: .fetched, bytes: Self.size(of: item.path))
        outcome.attempts = response.attempts
        outcome.status = response.status
        outcome.isResumed = response.status == 206 || response.status == 416
        if options.takesNamesOfServer, item.isNamedByURL, let header = response.headers["Content-Disposition"] {
          outcome.path = rename(item, header)
        }
        return outcome
      } catch {
        var outcome = FetchOutcome(kind: .cancelled)
        outcome.status = operation.head?.status
        let part = Self.size(of: item.path + ".part")
        outcome.bytesKept = part > 0 ? part : nil
        if case RequestError.cancelled = error { return outcome }
        // It is another's.
        if case RequestError.invalidParameters = error { outcome.bytesKept = nil }
        outcome.kind = .failed(FetchFailure.text(error))
        return outcome
      }
    }
  }

  /// - Returns: where the file is now; nil if it has stayed where it was.
  private func rename(_ item: FetchItem, _ header: String) -> String? {
    guard let name = FetchName.name(inDisposition: header) else { return nil }
    let path = FetchPlan.joined(item.directory, name)
    guard path != item.path, state.withLock({ $0.claimed.insert(path).inserted }) else { return nil }
    if options.overwrites { return Foundation.rename(item.path, path) == 0 ? path : nil }
    // In one step that spares what is there.
    guard link(item.path, path) == 0 else { return nil }
    unlink(item.path)
    return path
  }

  private func finish(_ place: Int, _ outcome: FetchOutcome) {
    let item = plan.items[place]
    var outcome = outcome
    let (mark, endTime) = state.withLock { state -> (JobRecorder.Mark?, Double?) in
      let course = state.courses[place]
      if let start = course.start {
        outcome.seconds = (ContinuousClock.now - start).inSeconds
        state.underWay -= 1
      }
      state.courses[place] = Course()
      state.received += course.received
      state.over += 1
      state.outcomes[place] = outcome
      return (course.mark, state.endTime)
    }
    if let mark {
      recorder?.end(mark, name: item.path, owner: item.host, outcome: outcome.kind.recorded)
    } else if case .cancelled = outcome.kind {
      recorder?.cancelled(name: item.path, owner: item.host, at: endTime)
    }
    if !options.isJSON, let line = outcome.line(item, isQuiet: options.isQuiet) { Console.shared.write(line) }
  }

  static func size(of path: String) -> Int {
    var status = stat()
    return stat(path, &status) == 0 ? Int(status.st_size) : 0
  }

  // MARK: Progress

  var progress: String {
    let (over, underWay, bytes) = state.withLock { state in
      (state.over, state.underWay, state.courses.reduce(state.received) { $0 + $1.received })
    }
    let seconds = max((ContinuousClock.now - start).inSeconds, 0.001)
    return "fetching: \(Shown.count(over)) of \(Shown.count(plan.items.count, "file")), \(Shown.count(underWay)) under way, "
      + "\(Shown.bytes(Int(bytes))), \(Shown.bytes(Int(Double(bytes) / seconds)))/s"
  }
}
