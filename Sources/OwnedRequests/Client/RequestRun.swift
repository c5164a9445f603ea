import Foundation
import OwnedOperations

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// What came of a request.
struct RunOutcome: Sendable {
  var result: Result<Exchange, RequestError>
  /// What the server said last, also when that is an error.
  var head: ResponseHead?
  var source = ResponseSource.network
  var attempts = 0
}

extension RunOutcome {
  init(_ stored: CachedResponse, source: ResponseSource, attempts: Int) {
    self.init(result: .success(Exchange(head: stored.head, body: stored.body)), head: stored.head, source: source, attempts: attempts)
  }
}

/// A request under way: its attempts, the waits between them, its limits of time.
///
/// Protocol, all under the lock of `state`:
/// - idle ──▶ adapting ──▶ transferring ──▶ deciding ──▶ waiting ──▶ adapting ... ; from each of them to over.
/// - Each attempt has a number. A call that comes for another attempt, or in another phase, is for nobody.
/// - Whoever turns the phase to over takes what is under way and stops it, outside the lock.
/// - `finish` is called once, by an end; a cancellation releases it uncalled.
final class RequestRun: Sendable {
  private enum Phase {
    case idle
    case adapting(Task<Void, Never>?)
    /// Nil until the hub has given a place.
    case transferring(TransferHub.Place?)
    case deciding(Task<Void, Never>?)
    case waiting(OneShotTimer?)
    case over
  }

  private struct State {
    var phase = Phase.idle
    var attempt = 0
    var prepared: PreparedRequest?
    /// As interceptors have left it; nil if nothing is known of it that would allow to repeat it.
    var method: Request.Method?
    var finish: (@Sendable (RunOutcome) -> Void)?
    var preview: (@Sendable (RunOutcome) -> Void)?
    var progress: (@Sendable (TransferProgress) -> Void)?
    var cachePlan: CachePlan?
    var head: ResponseHead?
    var deadline: ContinuousClock.Instant?
    var lastByte = ContinuousClock.now
    var totalTimer: OneShotTimer?
    var idleTimer: OneShotTimer?
    /// Until a download has its file.
    var openTimer: OneShotTimer?
    /// The disk is asked about the file that is being sent.
    var looksAtFile = false
    /// When a look found that nothing more comes of it, if nothing has been sent since. A second one is needed, a while later: it may be
    /// about to be written anew.
    var missesFileSince: ContinuousClock.Instant?

    /// How often it is looked whether there is still something to come of a file that is being sent. Where it has become shorter, a session
    /// on Linux waits for the rest, and keeps a processor busy; see `BodyFile` for more.
    static let fileInterval = Duration.seconds(1)

    var sendsFile: Bool { prepared?.body.isStreamed ?? false }

    var place: TransferHub.Place? { if case .transferring(let place) = phase { place } else { nil } }

    func timeUntilNextLook(_ left: Duration) -> Duration { sendsFile ? min(left, Self.fileInterval) : left }
  }

  /// What is taken out of a run that is over.
  private struct Remains {
    var phase = Phase.over
    var finish: (@Sendable (RunOutcome) -> Void)?
    var preview: (@Sendable (RunOutcome) -> Void)?
    var progress: (@Sendable (TransferProgress) -> Void)?
    var head: ResponseHead?
    var timers: [OneShotTimer?] = []

    func stop() {
      switch phase {
      case .adapting(let task), .deciding(let task): task?.cancel()
      case .transferring(let place): place?.leave()
      case .waiting(let timer): timer?.cancel()
      case .idle, .over: break
      }
      for timer in timers { timer?.cancel() }
    }
  }

  /// All that a run holds, and most of it is the user's.
  private final class Holdings: Sendable {
    let request: Request
    let client: RequestClient
    let download: DownloadFile?
    let stillMatters: @Sendable () -> Bool
    let state: Guarded<State>

    init(
      _ request: Request, _ client: RequestClient, _ download: DownloadFile?, _ stillMatters: @escaping @Sendable () -> Bool, _ state: State
    ) {
      (self.request, self.client, self.download, self.stillMatters) = (request, client, download, stillMatters)
      self.state = Guarded(state)
    }
  }

  /// Never nil until the end, which gives it away without a second reference: that could be the last.
  nonisolated(unsafe) private var holdings: Holdings?  // written by `init` and `deinit` only

  private var held: Holdings { holdings.unsafelyUnwrapped }
  private var request: Request { held.request }
  private var client: RequestClient { held.client }
  private var download: DownloadFile? { held.download }
  private var stillMatters: @Sendable () -> Bool { held.stillMatters }
  private var state: Guarded<State> { held.state }

  /// - Parameters:
  ///   - stillMatters: false once the request has been cancelled, though the run has yet to hear of it.
  ///   - preview: called at most once, before the end, with what the cache has to show meanwhile.
  ///   - progress: called on the session's queue.
  ///   - finish: called once, on a background thread, unless the run is cancelled.
  init(
    _ request: Request, client: RequestClient, download: DownloadFile?, stillMatters: @escaping @Sendable () -> Bool,
    preview: @escaping @Sendable (RunOutcome) -> Void,
    progress: @escaping @Sendable (TransferProgress) -> Void, finish: @escaping @Sendable (RunOutcome) -> Void
  ) {
    let state = State(finish: finish, preview: preview, progress: progress)
    holdings = Holdings(request, client, download, stillMatters, state)
  }

  /// Whoever calls a run last may hold it last, and with it the operation, the values of the request and of its answer, and the client.
  deinit {
    guard SharedThread.isCurrent else { return }
    let left = Guarded<Holdings?>(nil)
    left.withLock { swap(&$0, &holdings) }
    DeferredCalls.add {
      var going: Holdings?
      left.withLock { swap(&$0, &going) }
    }
  }

  // MARK: Beginning and end

  func begin() { begin(looks: 40) }

  /// - Parameter looks: how often to look whether a download to the same file has let go of it. One that was just cancelled is about to.
  private func begin(looks: Int) {
    do throws(RequestError) {
      let prepared = try client.prepare(request)
      let isBegun = state.withLock { state in
        guard case .idle = state.phase else { return false }
        state.prepared = prepared
        return true
      }
      guard isBegun else { return }
      if let download, !(try download.acquire()) {
        guard looks > 1 else { throw DownloadFile.isTaken }
        wait(looks: looks - 1)
        return
      }
      beginAttempt()
    } catch {
      end(RunOutcome(result: .failure(error)))
    }
  }

  private func wait(looks: Int) {
    var former: OneShotTimer?
    state.withLock { state in
      guard case .idle = state.phase else { return }
      former = state.openTimer
      // Made under the lock: it may go off at once, and the next one must not be kept before it.
      state.openTimer = client.timer(after: .milliseconds(50)) { [self] in inBackground { self.begin(looks: looks) } }
    }
    withExtendedLifetime(former) {}
  }

  /// Stops whatever is under way. Any thread; waits neither for the network nor for the disk.
  func cancel() {
    guard let remains = close() else { return }
    remains.stop()
    download?.letGoInBackground()
  }

  /// - Parameter isInBackground: whether this thread is one where decoding may take its time, and is inside of nothing that it holds up.
  private func end(_ outcome: RunOutcome, isInBackground: Bool = false) {
    guard let remains = close() else { return }
    remains.stop()
    download?.letGo()
    guard let finish = remains.finish else { return }
    var outcome = outcome
    outcome.head = outcome.head ?? remains.head
    if isInBackground { return finish(outcome) }
    // The next is a copy, for the closure.
    let end = outcome
    if case .failure = end.result { client.endInBackground { finish(end) } } else { inBackground { finish(end) } }
  }

  private func close() -> Remains? {
    state.withLock { state in
      if case .over = state.phase { return nil }
      let remains = Remains(
        phase: state.phase, finish: state.finish, preview: state.preview, progress: state.progress, head: state.head,
        timers: [state.totalTimer, state.idleTimer, state.openTimer])
      state.phase = .over
      state.finish = nil
      state.preview = nil
      state.progress = nil
      state.totalTimer = nil
      state.idleTimer = nil
      state.openTimer = nil
      return remains
    }
  }

  private var isOver: Bool { state.withLock { if case .over = $0.phase { true } else { false } } }

  private func inBackground(_ body: @escaping @Sendable () -> Void) { client.inBackground(body) }

  // MARK: An attempt

  private func beginAttempt() {
    var former = Phase.idle
    let begun = state.withLock { state -> (prepared: PreparedRequest, attempt: Int)? in
      guard let prepared = state.prepared else { return nil }
      switch state.phase {
      case .idle, .waiting, .deciding: break
      case .over where TransferMutation.beginsWhenOver.isOn: break
      case .adapting, .transferring, .over: return nil
      }
      state.attempt += 1
      state.missesFileSince = nil
      state.lastByte = .now
      former = state.phase
      state.phase = .adapting(nil)
      return (prepared, state.attempt)
    }
    withExtendedLifetime(former) {}
    guard let (prepared, attempt) = begun else { return }
    let interceptors = client.interceptors
    guard !interceptors.isEmpty else { return transfer(Outgoing(urlRequest: prepared.urlRequest, body: prepared.body), attempt) }
    let task = Task { [self] in
      do throws(RequestError) {
        var urlRequest = prepared.urlRequest
        for interceptor in interceptors {
          guard isWanted else { return }
          urlRequest = try await adapt(urlRequest, interceptor)
        }
        urlRequest.httpBody = prepared.urlRequest.httpBody
        try Request.check(urlRequest, with: prepared.body)
        let outgoing = Outgoing(urlRequest: urlRequest, body: prepared.body)
        inBackground { self.transfer(outgoing, attempt) }
      } catch {
        inBackground { self.end(RunOutcome(result: .failure(error), attempts: attempt - 1), isInBackground: true) }
      }
    }
    keep(task, attempt)
  }

  /// Whatever it throws is its own: an error of a request that it has sent, too. Not asked about what is over,
  /// or unwanted: the cancellation is on its way.
  private func adapt(_ urlRequest: URLRequest, _ interceptor: any RequestInterceptor) async throws(RequestError) -> URLRequest {
    do { return try await interceptor.adapt(urlRequest) } catch { throw .interceptor(error) }
  }

  /// A task belongs to the phase in which it was made. If that has passed, the task has come to its end or the run is over.
  private func keep(_ task: Task<Void, Never>, _ attempt: Int) {
    let isOver = state.withLock { state in
      switch state.phase {
      case .adapting(nil) where state.attempt == attempt: state.phase = .adapting(task)
      case .deciding(nil) where state.attempt == attempt: state.phase = .deciding(task)
      case .over: return true
      default: break
      }
      return false
    }
    if isOver { task.cancel() }
  }

  /// Asks the cache first.
  private func transfer(_ outgoing: Outgoing, _ attempt: Int) {
    guard download == nil else { return subscribe(outgoing, attempt) }
    guard let plan = CachePlan(request, outgoing, client) else {
      // An attempt before may have had one, under a key that says less of who asks.
      var former: CachePlan?
      state.withLock { swap(&former, &$0.cachePlan) }
      return subscribe(outgoing, attempt)
    }
    if let answer = plan.answer { return end(RunOutcome(answer, source: .cache, attempts: attempt - 1), isInBackground: true) }
    let preview = state.withLock { state in
      state.cachePlan = plan
      defer { if plan.preview != nil { state.preview = nil } }
      return state.preview
    }
    if let shown = plan.preview { preview?(RunOutcome(shown, source: .cache, attempts: attempt - 1)) }
    var outgoing = outgoing
    plan.adapt(&outgoing)
    subscribe(outgoing, attempt)
  }

  private func subscribe(_ outgoing: Outgoing, _ attempt: Int) {
    let isNext = state.withLock { state in
      guard case .adapting = state.phase, state.attempt == attempt else { return false }
      state.method = Request.Method(rawValue: outgoing.urlRequest.httpMethod ?? "GET")
      state.phase = .transferring(nil)
      return true
    }
    guard isNext else { return }
    guard let place = place(for: outgoing, attempt) else { return }
    let isKept = state.withLock { state in
      guard case .transferring(nil) = state.phase, state.attempt == attempt else { return TransferMutation.placeMissesTheEnd.isOn }
      state.phase = .transferring(place)
      return true
    }
    if !isKept { place.leave() }
  }

  private func place(for outgoing: Outgoing, _ attempt: Int) -> TransferHub.Place? {
    guard let download else {
      return client.hub.subscribe(self, attempt: attempt, to: outgoing, key: sharedKey(of: outgoing), priority: request.priority)
    }
    var outgoing = outgoing
    do throws(RequestError) { try download.adapt(&outgoing.urlRequest) } catch {
      end(RunOutcome(result: .failure(error), attempts: attempt - 1))
      return nil
    }
    return client.hub.subscribe(
      self, attempt: attempt, to: outgoing, key: nil, priority: request.priority, sink: download, sessions: client.downloadSessions)
  }

  /// Nil if the answer is for nobody else.
  private func sharedKey(of outgoing: Outgoing) -> TransferKey? {
    guard request.coalesces, ["GET", "HEAD"].contains(outgoing.urlRequest.httpMethod), case .none = outgoing.body else { return nil }
    let cookies = client.cookies(for: outgoing)
    guard request.coalescesIfSet == true || cookies == nil && !outgoing.hasCredentials else { return nil }
    return TransferKey(outgoing.urlRequest, cookies: cookies, validators: outgoing.validators)
  }

  // MARK: After an attempt

  private func decide(_ outcome: RunOutcome, after error: RequestError, attempt: Int) {
    let interceptors = client.interceptors
    guard !interceptors.isEmpty else { return follow(.asUsual, outcome, after: error, attempt) }
    let task = Task { [self] in
      var decision = RetryDecision.asUsual
      for interceptor in interceptors where decision == .asUsual {
        guard isWanted else { return }
        decision = await interceptor.decision(after: error, head: outcome.head, attempt: attempt)
      }
      inBackground { [decision] in self.follow(decision, outcome, after: error, attempt) }
    }
    keep(task, attempt)
  }

  private func follow(_ decision: RetryDecision, _ outcome: RunOutcome, after error: RequestError, _ attempt: Int) {
    let delay: Duration? =
      switch decision {
      case .fail: nil
      case .retry: .zero
      case .retryAfter(let delay): delay
      case .asUsual:
        request.retry.delay(
          after: error, head: outcome.head, attempt: attempt, method: state.withLock { $0.method }, now: Date(),
          randomness: .random(in: 0...1))
      }
    guard let delay else { return end(outcome) }
    let isInTime = state.withLock { state -> Bool? in
      guard case .deciding = state.phase, state.attempt == attempt else { return nil }
      if let deadline = state.deadline {
        if ContinuousClock.now + delay >= deadline { return false }
      } else if decision == .asUsual, delay > request.retry.longestDelay(within: request.timeout) {
        return false
      }
      state.phase = .waiting(nil)
      return true
    }
    guard let isInTime else { return }
    // Nothing would come of waiting: so what the server said is told at once.
    guard isInTime else { return end(outcome) }
    let timer = client.timer(after: delay) { [self] in inBackground { self.beginAttempt() } }
    state.withLock { state in
      if case .waiting(nil) = state.phase, state.attempt == attempt { state.phase = .waiting(timer) }
    }
  }

  // MARK: Limits of time

  private var isStreamed: Bool { download != nil || state.withLock { $0.sendsFile } }

  /// Downloads and uploads of files have none in total, unless it was set.
  private var totalLimit: Duration? {
    if let limit = request.timeoutIfSet { return limit }
    return isStreamed ? nil : request.timeout
  }

  /// For tests: what limits the run now.
  struct Limits: Equatable {
    var deadline: ContinuousClock.Instant?
    /// How long no byte may move.
    var silence: Duration?
  }

  var limits: Limits {
    state.withLock { Limits(deadline: $0.totalTimer == nil ? nil : $0.deadline, silence: $0.idleTimer == nil ? nil : request.idleLimit) }
  }

  private func startClocks() {
    let limit = totalLimit
    let isStreamed = isStreamed
    state.withLock { state in
      state.lastByte = .now
      state.missesFileSince = nil
      guard state.totalTimer == nil, state.idleTimer == nil else { return }
      if case .over = state.phase { return }
      if let limit {
        state.deadline = .now + limit
        state.totalTimer = client.timer(after: limit) { [weak self] in self?.timeOutInBackground() }
      }
      if isStreamed { state.idleTimer = idleTimer(after: state.timeUntilNextLook(request.idleLimit)) }
    }
  }

  private func timeOutInBackground(_ error: RequestError = .timedOut) { client.endInBackground { self.timeOut(error) } }

  private func timeOut(_ error: RequestError) {
    let (former, attempts, place) = state.withLock { ($0.head, $0.attempt, $0.place) }
    let head = place?.transfer.head ?? former
    end(RunOutcome(result: .failure(error), head: head, attempts: attempts), isInBackground: true)
  }

  private func idleTimer(after delay: Duration) -> OneShotTimer {
    client.timer(after: delay) { [weak self] in self?.lookForBytes() }
  }

  /// Time spent between attempts does not count.
  private func lookForBytes() {
    var former: OneShotTimer?
    let (place, attempt) = state.withLock { ($0.place, $0.attempt) }
    // Not while it waits for its turn, for the first time or after a redirect.
    let isUnderWay = place?.transfer.isUnderWay ?? false
    var asksDisk = false
    let isIdle = state.withLock { state in
      if case .over = state.phase { return false }
      if !isUnderWay { state.lastByte = .now }
      let silence = ContinuousClock.now - state.lastByte
      let left = request.idleLimit - silence
      guard left > .zero else { return true }
      former = state.idleTimer
      state.idleTimer = idleTimer(after: state.timeUntilNextLook(left))
      asksDisk = state.sendsFile && isUnderWay && !state.looksAtFile && silence >= State.fileInterval / 2
      if asksDisk { state.looksAtFile = true }
      return false
    }
    withExtendedLifetime(former) {}
    if isIdle { timeOutInBackground(download?.stallFailure ?? .timedOut) }
    if asksDisk, let place { inBackground { self.look(atFileOf: place.transfer, attempt) } }
  }

  private func look(atFileOf transfer: Transfer, _ attempt: Int) {
    let failure = transfer.fileFailure
    let isSure = state.withLock { state in
      state.looksAtFile = false
      guard state.attempt == attempt, case .transferring = state.phase else { return false }
      guard failure != nil else {
        state.missesFileSince = nil
        return false
      }
      let since = state.missesFileSince ?? .now
      state.missesFileSince = since
      return ContinuousClock.now - since >= State.fileInterval / 2
    }
    if let failure, isSure { timeOut(failure) }
  }
}

extension RequestRun: TransferSubscriber {
  var isWanted: Bool { !isOver && stillMatters() }

  var acceptedStatus: Range<Int> { request.acceptedStatus }

  func transferDidBegin(attempt: Int) { startClocks() }

  func transferDidProgress(_ progress: TransferProgress, attempt: Int) {
    let report = state.withLock { state in
      guard case .transferring = state.phase, state.attempt == attempt else { return nil as (@Sendable (TransferProgress) -> Void)? }
      state.lastByte = .now
      state.missesFileSince = nil
      return state.progress
    }
    report?(progress)
  }

  func transferDidEnd(_ result: Result<Exchange, RequestError>, head: ResponseHead?, attempt: Int) {
    var outcome = RunOutcome(result: result, head: head, attempts: attempt)
    var failure: RequestError?
    do throws(RequestError) { outcome = try judge(result.get(), attempt: attempt) } catch {
      failure = error
      outcome.result = .failure(error)
    }
    let isNext = state.withLock { state in
      guard case .transferring = state.phase, state.attempt == attempt else { return false }
      state.phase = .deciding(nil)
      state.head = outcome.head ?? state.head
      return true
    }
    guard isNext else { return }
    guard let failure else { return end(outcome) }
    // Nothing was sent, and nothing would be another time.
    if case .invalidParameters = failure, download == nil { return end(outcome) }
    download?.rest()
    // What had come earlier was of something else, and has been let go of: no failure of the server's.
    if download?.takeStartsOver() == true { return follow(.retry, outcome, after: failure, attempt) }
    // Nor is a disk that stalled, if it goes on now.
    if download?.takeCut() == true, case .transport = failure { return follow(.retry, outcome, after: failure, attempt) }
    decide(outcome, after: failure, attempt: attempt)
  }

  private func judge(_ exchange: Exchange, attempt: Int) throws(RequestError) -> RunOutcome {
    let (head, outcome) = (exchange.head, RunOutcome(result: .success(exchange), head: exchange.head, attempts: attempt))
    if let download, head.status == 416, try download.isWhole(after: head) { return outcome }
    let plan = state.withLock { $0.cachePlan }
    let isStored = plan.map { mayStore(exchange, by: $0) } ?? false
    if let stored = plan?.revalidated(by: exchange, isStored: isStored) {
      return RunOutcome(stored, source: .revalidated, attempts: attempt)
    }
    // A download accepts a part that was asked for, and otherwise only what brings a file: an accepted status from 200 to 299.
    let isAccepted = request.acceptedStatus.contains(head.status)
    guard download == nil ? isAccepted : head.status == 206 || isAccepted && (200..<300).contains(head.status) else {
      throw .status(head.status, body: RequestError.kept(exchange.body))
    }
    if isStored { plan?.store(exchange) }
    return outcome
  }

  /// Whether the plan's key says all of who has asked. Cookies may be others since the cache was asked, and redirects may have led to where
  /// there are some.
  private func mayStore(_ exchange: Exchange, by plan: CachePlan) -> Bool {
    let addresses = exchange.redirects.map(\.url) + [exchange.head.url]
    return client.cookies(for: addresses[0]) == plan.cookies && addresses.dropFirst().allSatisfy { client.cookies(for: $0) == nil }
  }
}
