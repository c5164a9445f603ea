import Foundation
import OwnedOperations

/// A request as an operation: it waits for dependencies, is cancelled with its owner, and others can depend on it.
///
/// Made by a ``RequestClient``. Under way it takes no thread. Its outcome is `.failed` with a ``RequestError``, or `.cancelled` with the
/// reason, as of any owned operation. ``result`` has both in one.
//
// Protocol: the result is stored before the operation finishes, so that dependents see it, and announced (to handler, waiters,
// progress) after. Whoever turns `isSettled`, the finish or the cancellation, announces.
//
// `@unchecked Sendable`: all that is stored is constant, or guarded by the lock of `record`.
public final class RequestOperation<Value: Sendable>: OwnedOperation, @unchecked Sendable {
  typealias Outcome = Result<Response<Value>, RequestError>

  private struct Record {
    /// Until the start.
    var request: Request?
    var download: DownloadFile?
    var run: RequestRun?
    var handler: HandlerCalls<Outcome>?
    var waiters: [Int: SuspendedTask<Outcome?, Never>] = [:]
    var nextWaiter = 0
    var progress: [Int: AsyncStream<TransferProgress>.Continuation] = [:]
    var nextStream = 0
    var lastProgress: TransferProgress?
    var head: ResponseHead?
    /// What the cache has shown.
    var preview: Outcome?
    var result: Outcome?
    /// Nothing is sent for it any more.
    var isUnwanted = false
    var isSettled = false
  }

  private let client: RequestClient
  private let decoder: ResponseDecoder<Value>
  /// What it is sent with, if others are.
  private let batch: RequestBatch?
  private let record: Guarded<Record>

  init(
    _ request: Request, client: RequestClient, lifetime: OwnerLifetime, decoding decoder: ResponseDecoder<Value>,
    download: DownloadFile? = nil, handler: HandlerCalls<Outcome>? = nil, batch: RequestBatch? = nil
  ) {
    self.client = client
    self.decoder = decoder
    self.batch = batch
    record = Guarded(Record(request: request, download: download, handler: handler))
    super.init(lifetime: lifetime)
    setTellsOthers()
    if request.priority != .normal { queuePriority = request.priority }
    // Made for an owner that has ended, it will not be told so.
    if isFinished {
      settle(.failure(.cancelled(cancellationReason ?? .ownerEnded(ownerID))), reachesHandler: false)
    } else {
      client.register(self)
    }
  }

  deinit {
    client.unregister(ObjectIdentifier(self), of: lifetime.id)
    for stream in record.withLock({ $0.progress }).values { stream.finish() }
  }

  // MARK: What came of it

  /// What the server answered; nil unless the operation has succeeded.
  public var response: Response<Value>? { try? result?.get() }

  /// What came of the request; nil until it is over.
  public var result: Result<Response<Value>, RequestError>? {
    let (result, isSettled) = record.withLock { ($0.result, $0.isSettled) }
    if isSettled { return result }
    // Between the finish and the announcement.
    switch outcome {
    case .succeeded?, .failed?: return result
    case .cancelled(.timedOut)?: return .failure(.timedOut)
    case .cancelled(let reason)?: return .failure(.cancelled(reason))
    case nil: return nil
    }
  }

  /// Status, headers and URL of the last answer, also if it was an error; nil before there is one.
  public var head: ResponseHead? { record.withLock { $0.head } }

  /// Waits for the response; with ``CachePolicy/cachedThenFresh`` for the first of the two. The operation is not started by this, and
  /// not cancelled when the task that waits is.
  /// - Throws: ``RequestError``; `CancellationError` if the task that waits is cancelled.
  public var value: Response<Value> {
    get async throws {
      guard let outcome = await settled() else { throw CancellationError() }
      return try outcome.get()
    }
  }

  /// How far the request has come. Each call makes a stream of its own, that begins with the last known progress and ends with the request.
  /// It skips what comes faster than it is read. One that is read no more is let go.
  public var progress: AsyncStream<TransferProgress> {
    let (stream, continuation) = AsyncStream.makeStream(of: TransferProgress.self, bufferingPolicy: .bufferingNewest(1))
    let id = record.withLock { record in
      record.nextStream += 1
      return record.nextStream
    }
    // Before it is kept: nobody else has the stream yet.
    continuation.onTermination = { [weak self] _ in self?.forgetStream(id) }
    let isOver = record.withLock { record in
      // Before others can have a newer one for it. There is nobody to be woken.
      if let last = record.lastProgress { continuation.yield(last) }
      if !record.isSettled { record.progress[id] = continuation }
      return record.isSettled
    }
    if isOver { continuation.finish() }
    return stream
  }

  /// Nobody reads it any more.
  private func forgetStream(_ id: Int) {
    let former = record.withLock { $0.progress.removeValue(forKey: id) }
    withExtendedLifetime(former) {}
  }

  /// For tests.
  var progressStreamCount: Int { record.withLock { $0.progress.count } }
  var waiterCount: Int { record.withLock { $0.waiters.count } }

  // MARK: Work

  /// True: a request under way takes no thread.
  public override var isAsynchronous: Bool { true }

  /// Begins the request. Called by the queue that starts the operation.
  public override func perform() {
    // By hand, between the start and this: nothing is sent, and those who wait hear of it.
    guard !isFinished else { return settle(.failure(.cancelled(.requested)), reachesHandler: true, isCancelled: true) }
    let (request, download) = record.withLock { ($0.request, $0.download) }
    guard let request else { return finishCancelled() }
    // The run holds the operation until it is over.
    let run = RequestRun(
      request, client: client, download: download, stillMatters: { [self] in !isCancelled && !isUnwanted }, preview: { [self] in show($0) },
      progress: { [self] in note($0) },
      finish: { [self] in complete($0) })
    let isOver = record.withLock { record in
      if !record.isSettled { record.run = run }
      return record.isSettled && !TransferMutation.runMissesTheEnd.isOn
    }
    if isOver { return finishCancelled() }
    run.begin()
  }

  private func finishCancelled() { finish() }

  /// What the cache has shown has ended what the batch waited for. The rest comes under the lifetime.
  private var isUnwanted: Bool { record.withLock { $0.isUnwanted || $0.preview == nil && batch?.isOver ?? false } }

  /// It is about to be, together with others.
  func willBeCancelled() { record.withLock { $0.isUnwanted = true } }

  /// Stops the transfer. Called when the operation is cancelled, whatever the reason.
  public override func didCancel(_ reason: CancellationReason) {
    switch reason {
    case .ownerEnded: settle(.failure(.cancelled(reason)), reachesHandler: false)
    case .timedOut: settle(.failure(.timedOut), reachesHandler: true)
    case .requested, .dependencyFailed: settle(.failure(.cancelled(reason)), reachesHandler: true, isCancelled: true)
    }
    finish()
  }

  /// What the cache has, before the server has answered. If it can't be decoded, nobody hears of it.
  private func show(_ outcome: RunOutcome) {
    guard case .success(let response) = decode(outcome) else { return }
    let preview = Outcome.success(response)
    var waiters: [Int: SuspendedTask<Outcome?, Never>] = [:]
    let handler = record.withLock { record in
      guard !record.isSettled else { return nil as HandlerCalls<Outcome>? }
      record.preview = preview
      swap(&waiters, &record.waiters)
      return record.handler
    }
    for waiter in waiters.values { waiter.resume(returning: preview) }
    // If it has been cancelled meanwhile, this shows nothing.
    handler?.show(preview)
  }

  /// Not private for tests.
  func note(_ progress: TransferProgress) {
    let streams = record.withLock { record in
      record.lastProgress = progress
      return record.progress.values
    }
    for stream in streams { stream.yield(progress) }
  }

  /// On a background thread, once, unless the run was cancelled.
  private func complete(_ outcome: RunOutcome) {
    let result = decode(outcome)
    var former: Outcome?
    // What the cache has shown has answered its batch, which goes on whatever becomes of the rest.
    let answersBatch = record.withLock { record in
      guard !record.isSettled else { return false }
      record.head = outcome.head
      former = record.result
      record.result = result
      return record.preview == nil
    }
    withExtendedLifetime(former) {}
    switch result {
    case .success: finish()
    case .failure(let error):
      if answersBatch { batch?.end() }
      finish(throwing: error)
    }
    // If it was cancelled first, `didCancel` settles.
    if case .cancelled? = self.outcome { return }
    settle(result, reachesHandler: true)
  }

  private func decode(_ outcome: RunOutcome) -> Outcome {
    switch outcome.result {
    case .failure(let error): return .failure(error)
    case .success(let exchange):
      do {
        let value = try decoder.decode(exchange.body, exchange.head)
        return .success(Response(value, exchange.head, source: outcome.source, attempts: outcome.attempts))
      } catch {
        return .failure(.decoding(error, body: RequestError.kept(exchange.body)))
      }
    }
  }

  private func settle(_ result: Outcome, reachesHandler: Bool, isCancelled: Bool = false) {
    var former = Record()
    let isFirst = record.withLock { record in
      guard !record.isSettled else { return false }
      swap(&former, &record)
      record.result = result
      record.head = former.head
      record.lastProgress = former.lastProgress
      record.isSettled = true
      return true
    }
    guard isFirst else { return }
    former.run?.cancel()
    client.unregister(ObjectIdentifier(self), of: lifetime.id)
    for waiter in former.waiters.values { waiter.resume(returning: result) }
    for stream in former.progress.values { stream.finish() }
    if reachesHandler { former.handler?.finish(result, dropsPreviews: isCancelled) }
  }

  // MARK: Waiting

  /// Returns nil if the task that waits is cancelled first.
  private func settled() async -> Outcome? {
    let id = record.withLock { record in
      record.nextWaiter += 1
      return record.nextWaiter
    }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let task = SuspendedTask(continuation)
        let isCancelled = Task.isCancelled
        var isOver = false
        let result = record.withLock { record -> Outcome? in
          isOver = record.isSettled || record.preview != nil || isCancelled
          if !isOver { record.waiters[id] = task }
          return record.isSettled ? record.result : record.preview
        }
        if isOver {
          continuation.resume(returning: result)
        }
        // The cancellation may have come before the continuation was there.
        else if Task.isCancelled {
          stopWaiting(id)
        }
      }
    } onCancel: {
      stopWaiting(id)
    }
  }

  private func stopWaiting(_ id: Int) {
    record.withLock { $0.waiters.removeValue(forKey: id) }?.resume(returning: nil)
  }
}

/// Any request operation, for the client's list.
protocol RegisteredRequest: AnyObject, Sendable {
  var lifetime: OwnerLifetime { get }
  func willBeCancelled()
  func cancel()
}

extension RequestOperation: RegisteredRequest {}
