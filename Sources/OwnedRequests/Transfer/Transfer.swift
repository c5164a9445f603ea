import Foundation

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// An answer as it came.
struct Exchange: Sendable {
  var head: ResponseHead
  var body: Data
  /// It was an error to all who asked, and longer than errors keep: the rest was not waited for.
  var isCut = false
  /// The answers that have led to this one, in their order.
  var redirects: [ResponseHead] = []
}

/// Somebody who waits for a transfer. No call comes after the end, or after unsubscribing, but for one that is under way.
protocol TransferSubscriber: AnyObject, Sendable {
  /// False once it is about to unsubscribe: nothing is sent for it any more. Any thread, outside locks.
  var isWanted: Bool { get }
  /// Which answers are wanted whole. Of others the beginning will do. Constant: read under the transfer's lock.
  var acceptedStatus: Range<Int> { get }
  /// The host's limit has let the transfer begin; or go on, after a redirect.
  func transferDidBegin(attempt: Int)
  func transferDidProgress(_ progress: TransferProgress, attempt: Int)
  /// - Parameter head: what the server has said last, if it has.
  func transferDidEnd(_ result: Result<Exchange, RequestError>, head: ResponseHead?, attempt: Int)
}

/// Takes the body of an answer as it comes, on the line of its session, which has no other task.
protocol TransferSink: AnyObject, Sendable {
  /// - Returns: false if the body is to be kept in memory: an error's.
  func begin(_ head: ResponseHead) throws(RequestError) -> Bool
  func write(_ data: Data) throws(RequestError)
  /// All has come.
  func end() throws(RequestError)
  /// A write takes too long. Called while it is under way; must not wait for it.
  /// - Returns: true if another transfer can go on where this one stops.
  func isStalled() -> Bool
}

/// Where a transfer gets a session from when it begins, and gives it back to when its task has come to its end.
///
/// A session costs open files. So a transfer has none while it waits for its turn.
protocol SessionSource: AnyObject, Sendable {
  func take() -> TransferSession
  func giveBack(_ session: TransferSession)
}

/// A source of one session, which all share.
extension TransferSession: SessionSource {
  func take() -> TransferSession { self }
  func giveBack(_ session: TransferSession) {}
}

/// One exchange with a server, redirects included, for one asker or for several.
///
/// Protocol, all under the lock of `state`:
/// - waiting (has a ticket, no task) ──▶ under way (ticket, session and task) ──▶ over. A redirect goes back to waiting, for the next host.
/// - A form with files comes through laying out between the two: it has its turn, and its file is written. So what waits has no file, and
///   no more files are written at once than hosts have turns. A redirect that keeps the body keeps the file.
/// - Whoever turns the phase to over, by an end or as the last subscriber that leaves, takes ticket, task and subscribers, and lets them
///   go.
/// - A transfer that is over takes no subscriber. It begins with one.
/// - Subscribers are called outside the lock.
final class Transfer: Sendable {
  private enum Phase { case waiting, layingOut, underWay, over }

  private struct Subscription {
    let subscriber: any TransferSubscriber
    let attempt: Int
  }

  private struct State {
    var outgoing: Outgoing
    /// The most urgent one of its askers, those that have left included.
    var priority: Operation.QueuePriority
    var phase = Phase.waiting
    var ticket: HostLimits.Ticket?
    var session: TransferSession?
    var task: SessionTask?
    var subscriptions: [Int: Subscription] = [:]
    var nextSubscription = 0
    var hasBegun = false
    /// The answers that have led on.
    var redirects: [ResponseHead] = []
    var redirect: Outgoing?
    /// What the body is read from, if it was a form.
    var layout: TemporaryFile?
    /// What the body is read from, as it was found.
    var source: BodyFile?
    var head: ResponseHead?
    var usesSink = false
    var body = Data()
    var progress = TransferProgress()

    /// Not one that promises another.
    var lastAnswer: ResponseHead? { head.flatMap { (100..<200).contains($0.status) ? nil : $0 } }
  }

  /// What is taken out of a transfer that is over.
  private struct Remains {
    var ticket: HostLimits.Ticket?
    var session: TransferSession?
    var task: SessionTask?
    var layout: TemporaryFile?
    var subscriptions: [Subscription] = []
    var head: ResponseHead?
  }

  private let state: Guarded<State>
  private let sessions: any SessionSource
  private let limits: HostLimits
  private let sink: (any TransferSink)?
  private let whenOver: @Sendable (Transfer) -> Void

  init(
    _ outgoing: Outgoing, sessions: any SessionSource, limits: HostLimits, priority: Operation.QueuePriority, sink: (any TransferSink)?,
    whenOver: @escaping @Sendable (Transfer) -> Void
  ) {
    state = Guarded(State(outgoing: outgoing, priority: priority))
    self.sessions = sessions
    self.limits = limits
    self.sink = sink
    self.whenOver = whenOver
  }

  // MARK: Subscribers

  /// - Returns: what to unsubscribe with, and whether the transfer has begun; nil if it is over.
  func subscribe(_ subscriber: any TransferSubscriber, attempt: Int) -> (id: Int, hasBegun: Bool)? {
    state.withLock { state in
      guard state.phase != .over || TransferMutation.joinsWhatIsOver.isOn else { return nil }
      let id = state.nextSubscription
      state.nextSubscription += 1
      state.subscriptions[id] = Subscription(subscriber: subscriber, attempt: attempt)
      return (id, state.hasBegun)
    }
  }

  /// For tests.
  var subscriberCount: Int { state.withLock { $0.subscriptions.count } }

  /// Somebody has joined to whom it is as urgent as this: it moves forward in line, if that is more urgent than it was.
  func raise(to priority: Operation.QueuePriority) {
    let ticket = state.withLock { state in
      if priority.rawValue > state.priority.rawValue { state.priority = priority }
      return state.ticket
    }
    ticket?.raise(to: priority)
  }

  /// The last one to leave stops the transfer.
  func unsubscribe(_ id: Int) {
    var left: Subscription?
    var remains: Remains?
    state.withLock { state in
      left = state.subscriptions.removeValue(forKey: id)
      guard left != nil, state.subscriptions.isEmpty, state.phase != .over else { return }
      remains = Self.close(&state)
    }
    guard let remains else { return }
    remains.task?.cancel()
    remains.ticket?.release(grantsHere: false)
    whenOver(self)
    // To remove a large file takes its time, and this may be the thread on which an owner ends.
    if let layout = remains.layout { inBackground { withExtendedLifetime(layout) {} } }
  }

  private static func close(_ state: inout State) -> Remains {
    state.phase = .over
    let remains = Remains(
      ticket: state.ticket, session: state.session, task: state.task, layout: state.layout,
      subscriptions: Array(state.subscriptions.values), head: state.lastAnswer)
    state.ticket = nil
    state.session = nil
    state.task = nil
    state.layout = nil
    state.subscriptions = [:]
    return remains
  }

  // MARK: Course

  /// Gets in line for the host.
  func begin() {
    let (url, priority) = state.withLock { ($0.outgoing.urlRequest.url, $0.priority) }
    guard let url else { return }
    let ticket = limits.ticket(host: Redirects.origin(of: url), priority: priority) { [self] in start() }
    let present = state.withLock { state -> Operation.QueuePriority? in
      guard state.phase != .over else { return nil }
      state.ticket = ticket
      return state.priority
    }
    guard let present else { return ticket.release(grantsHere: false) }
    // It may have been raised before it had the ticket.
    ticket.raise(to: present)
    ticket.enter()
  }

  /// Whether somebody still wants it. Otherwise it is over now. An owner's requests are told of its end one after the other, and must not
  /// begin because one before them has made room.
  private func isWanted() -> Bool {
    var asked: Set<Int> = []
    while true {
      let open = state.withLock { state in state.phase == .waiting ? state.subscriptions.filter { !asked.contains($0.key) } : [:] }
      if open.values.contains(where: { $0.subscriber.isWanted }) { return true }
      asked.formUnion(open.keys)
      let remains = state.withLock { state -> Remains? in
        // Unless somebody has joined meanwhile.
        guard state.phase == .waiting, state.subscriptions.keys.allSatisfy({ asked.contains($0) }) else { return nil }
        return Self.close(&state)
      }
      if let remains {
        // Called by a grant: one inside of the other would be as deep as the line is long.
        remains.ticket?.release(grantsHere: false)
        whenOver(self)
        return false
      }
      if state.withLock({ $0.phase != .waiting }) { return false }
    }
  }

  private func start() {
    guard isWanted() else { return }
    var audience: [Subscription] = []
    let outgoing = state.withLock { state -> Outgoing? in
      guard state.phase == .waiting else { return nil }
      state.phase = state.outgoing.body.isForm ? .layingOut : .underWay
      audience = Array(state.subscriptions.values)
      state.hasBegun = true
      return state.outgoing
    }
    guard let outgoing else { return }
    for subscription in audience { subscription.subscriber.transferDidBegin(attempt: subscription.attempt) }
    guard case .form(let form) = outgoing.body else { return send(outgoing) }
    inBackground { [self] in layOut(form) }
  }

  /// Files are not read and written on the thread of somebody who has made room.
  private func inBackground(_ body: @escaping @Sendable () -> Void) { DispatchQueue.global(qos: .userInitiated).async(execute: body) }

  private func layOut(_ form: MultipartForm) {
    do throws(RequestError) {
      let file = try TemporaryFile()
      try form.write(to: file.url, shouldStop: { state.withLock { $0.phase == .over } })
      let outgoing = state.withLock { state -> Outgoing? in
        guard state.phase == .layingOut else { return nil }
        state.phase = .underWay
        state.layout = file
        state.outgoing.body = .file(file.url)
        return state.outgoing
      }
      if let outgoing { send(outgoing) }
    } catch {
      end(.failure(error))
    }
  }

  private func send(_ outgoing: Outgoing) {
    let source: BodyFile? = if case .file(let file) = outgoing.body { BodyFile(file) } else { nil }
    state.withLock { $0.source = source }
    let session = sessions.take()
    let task = session.task(for: outgoing.urlRequest, body: outgoing.body, receiver: self)
    // Known before it begins: its end, or a redirect's next, may come at once.
    let isOver = state.withLock { state in
      if state.phase == .underWay {
        state.session = session
        state.task = task
      }
      return state.phase == .over && !TransferMutation.taskMissesTheLastLeave.isOn
    }
    if isOver { task.cancel() } else { task.resume() }
  }

  /// What the server has said last, if it has.
  var head: ResponseHead? { state.withLock { $0.lastAnswer } }

  /// Neither waiting for its turn, nor for files of its own.
  var isUnderWay: Bool { state.withLock { $0.phase == .underWay } }

  /// Why nothing more can come of a file that is being sent, such as that it has become shorter; nil if something may. Looks at the disk,
  /// which may take its time.
  var fileFailure: RequestError? {
    let (file, progress) = state.withLock { state -> (BodyFile?, TransferProgress) in
      (state.phase == .underWay ? state.source : nil, state.progress)
    }
    guard let file, progress.bytesSent < progress.bytesToSend ?? file.length else { return nil }
    return file.failure(after: progress.bytesSent)
  }

  /// On a thread that may begin what others have asked for.
  private func end(_ result: Result<Exchange, RequestError>) {
    let remains = state.withLock { state in state.phase == .over ? nil : Self.close(&state) }
    guard let remains else { return }
    if case .failure = result { remains.task?.cancel() }
    announce(result, to: remains)
  }

  /// - Parameter grantsHere: false where this may be the session's thread, which must not begin what others have asked for.
  private func announce(_ result: Result<Exchange, RequestError>, to remains: Remains, grantsHere: Bool = true) {
    remains.ticket?.release(grantsHere: grantsHere)
    whenOver(self)
    for subscription in remains.subscriptions {
      subscription.subscriber.transferDidEnd(result, head: remains.head, attempt: subscription.attempt)
    }
  }

  private func announceProgress(_ change: (inout TransferProgress) -> Void) {
    var progress = TransferProgress()
    let audience = state.withLock { state in
      change(&state.progress)
      progress = state.progress
      return Array(state.subscriptions.values)
    }
    for subscription in audience { subscription.subscriber.transferDidProgress(progress, attempt: subscription.attempt) }
  }
}

extension Transfer: SessionTaskReceiver {
  func taskDidReceive(_ head: ResponseHead) {
    let outgoing = state.withLock { state in
      state.head = head
      state.body = Data()
      state.usesSink = false
      state.redirect = Redirects.next(after: state.outgoing, head)
      return state.redirect == nil ? state.outgoing : nil
    }
    guard outgoing != nil else { return }
    if let sink {
      do throws(RequestError) {
        let usesSink = try sink.begin(head)
        state.withLock { $0.usesSink = usesSink }
      } catch {
        return end(.failure(error))
      }
    }
    announceProgress { $0.bytesToReceive = head.contentLength }
  }

  /// To all who wait for it. Of a download it is one if it doesn't go to the file.
  private func isError(_ head: ResponseHead, _ state: State) -> Bool {
    if sink != nil { return true }
    return state.subscriptions.values.allSatisfy { !$0.subscriber.acceptedStatus.contains(head.status) }
  }

  func taskDidReceive(_ data: Data) {
    var writes = false
    var cut: (exchange: Exchange, remains: Remains)?
    let counts = state.withLock { state in
      guard state.redirect == nil, state.phase != .over else { return false }
      writes = state.usesSink
      // What goes to a file is kept there.
      guard !writes else { return true }
      if state.body.isEmpty { state.body = data } else { state.body.append(data) }
      // In one step with the end: who joins later, and may accept it, has a transfer of its own.
      if state.body.count > RequestError.bodyLimit, let head = state.head, isError(head, state) {
        cut = (Exchange(head: head, body: RequestError.kept(state.body), isCut: true), Self.close(&state))
      }
      return cut == nil
    }
    if let cut {
      cut.remains.task?.cancel()
      announce(.success(cut.exchange), to: cut.remains, grantsHere: false)
    }
    guard counts else { return }
    if writes, let sink {
      do throws(RequestError) { try sink.write(data) } catch { return end(.failure(error)) }
    }
    announceProgress { $0.bytesReceived += Int64(data.count) }
  }

  /// On Linux, a session sends all of a file that has become longer than it has said. A server would take the rest for another request,
  /// and the session never comes to an end.
  func taskDidSend(_ bytes: Int64, of total: Int64?) {
    if let total, bytes > total {
      let surplus = state.withLock { state -> (failure: RequestError, remains: Remains)? in
        guard state.phase == .underWay, let file = state.source else { return nil }
        return (file.changed, Self.close(&state))
      }
      guard let surplus else { return }
      surplus.remains.task?.cancel()
      return announce(.failure(surplus.failure), to: surplus.remains, grantsHere: false)
    }
    announceProgress { progress in
      progress.bytesSent = bytes
      progress.bytesToSend = total
    }
  }

  func taskIsStalled() -> Bool {
    let isBody = state.withLock { $0.phase == .underWay && $0.redirect == nil && $0.usesSink }
    return isBody && sink?.isStalled() == true
  }

  /// A file may have gone since the request was looked at: it waits for its turn, or for another attempt.
  private func failure(for error: URLError) -> RequestError {
    let codes: [URLError.Code: Int32] = [.fileDoesNotExist: ENOENT, .fileIsDirectory: EISDIR, .noPermissionsToReadFile: EACCES]
    guard let code = codes[error.code], case .file(let file) = state.withLock({ $0.outgoing.body }) else { return .transport(error) }
    return .fileSystem(FileFailure(action: "read", path: file.path, code: code))
  }

  func taskDidComplete(_ error: URLError?) {
    if let error { return end(.failure(failure(for: error))) }
    var former: HostLimits.Ticket?
    var session: TransferSession?
    var exchange: Exchange?
    var usesSink = false
    var isTooMany = false
    var unusedLayout: TemporaryFile?
    state.withLock { state in
      guard state.phase == .underWay else { return }
      state.task = nil
      swap(&session, &state.session)
      guard let redirect = state.redirect else {
        usesSink = state.usesSink
        exchange = state.head.map { Exchange(head: $0, body: state.body, redirects: state.redirects) }
        return
      }
      if let head = state.head { state.redirects.append(head) }
      isTooMany = state.redirects.count > Redirects.limit
      guard !isTooMany else { return }
      state.outgoing = redirect
      if case .none = redirect.body { swap(&unusedLayout, &state.layout) }
      state.redirect = nil
      // The body is sent anew.
      state.progress = TransferProgress()
      state.phase = .waiting
      swap(&former, &state.ticket)
    }
    withExtendedLifetime(unusedLayout) {}
    var failure: RequestError?
    if usesSink, let sink, exchange != nil {
      do throws(RequestError) { try sink.end() } catch { failure = error }
    }
    // Not before: the next one's pieces would wait behind the end of this one's file.
    if let session { sessions.giveBack(session) }
    if let failure { return end(.failure(failure)) }
    if isTooMany { return end(.failure(.transport(URLError(.httpTooManyRedirects)))) }
    if let former {
      former.release()
      return begin()
    }
    guard let exchange else { return end(.failure(.transport(URLError(.badServerResponse)))) }
    end(.success(exchange))
  }
}
