import Foundation
import Testing

@testable import OwnedOperations

/// Sequences that end with an owner.
@Suite struct OwnedSequenceTests {
  private struct Failure: Error, Equatable { let number: Int }

  /// Counts how often it is asked, and gives numbers from 0 on, or what it is told to.
  private struct Numbers: AsyncSequence, AsyncIteratorProtocol, Sendable {
    let asked = Counter()
    var failsAt: Int?

    func makeAsyncIterator() -> Numbers { self }

    mutating func next() async throws(Failure) -> Int? {
      let number = asked.value
      asked.add()
      if number == failsAt { throw Failure(number: number) }
      return number
    }
  }

  /// Doesn't answer the cancellation of its task.
  private struct Stubborn: AsyncSequence, AsyncIteratorProtocol, Sendable {
    let isAsked = Event()
    let mayReturn = Event()
    let captured: TokenOwner?

    func makeAsyncIterator() -> Stubborn { self }

    mutating func next() async throws(Never) -> Int? {
      isAsked.happen()
      await mayReturn.awaited()
      return 1
    }
  }

  @Test func theElementsAreThoseOfTheBaseOneAtATime() async throws {
    let lifetime = OwnerLifetime()
    let numbers = Numbers()
    var iterator = numbers.owned(by: lifetime).makeAsyncIterator()
    #expect(numbers.asked.value == 0)
    #expect(try await iterator.next() == 0)
    #expect(try await iterator.next() == 1)
    #expect(numbers.asked.value == 2)
  }

  @Test func theEndOfTheBaseIsTheEnd() async {
    let lifetime = OwnerLifetime()
    let (stream, continuation) = AsyncStream.makeStream(of: Int.self)
    for number in 0..<3 { continuation.yield(number) }
    continuation.finish()
    var seen: [Int] = []
    for await number in stream.owned(by: lifetime) { seen.append(number) }
    #expect(seen == [0, 1, 2] && lifetime.memberCapacity <= 64)
  }

  @Test func errorsKeepTheirTypeAndEndIt() async {
    let lifetime = OwnerLifetime()
    var iterator = Numbers(failsAt: 1).owned(by: lifetime).makeAsyncIterator()
    do throws(Failure) {
      #expect(try await iterator.next(isolation: nil) == 0)
      _ = try await iterator.next(isolation: nil)
      Issue.record("no error")
    } catch {
      #expect(error.number == 1)
    }
    #expect((try? await iterator.next(isolation: nil)) == .some(nil))
  }

  @Test func itEndsWithTheOwnerWhileItWaits() async {
    /// Waits until its task is cancelled.
    struct Waiting: AsyncSequence, AsyncIteratorProtocol, Sendable {
      let isAsked = Event()
      let isCancelled = Event()
      func makeAsyncIterator() -> Waiting { self }
      mutating func next() async throws(Never) -> Int? {
        isAsked.happen()
        try? await Task.sleep(for: .seconds(600))
        isCancelled.happen()
        return nil
      }
    }
    let lifetime = OwnerLifetime()
    let base = Waiting()
    let loop = Task {
      for await _ in base.owned(by: lifetime) { Issue.record("an element") }
    }
    await base.isAsked.awaited()
    lifetime.end()
    await loop.value
    await base.isCancelled.awaited()
  }

  @Test func nothingComesAfterTheOwnersEnd() async throws {
    let lifetime = OwnerLifetime()
    let numbers = Numbers()
    var iterator = numbers.owned(by: lifetime).makeAsyncIterator()
    #expect(try await iterator.next() == 0)
    lifetime.end()
    #expect(try await iterator.next() == nil)
    var late = numbers.owned(by: lifetime).makeAsyncIterator()
    #expect(try await late.next() == nil)
    #expect(numbers.asked.value == 1)
  }

  @Test func anElementThatComesWithTheEndIsDropped() async {
    let lifetime = OwnerLifetime()
    LifetimeReaper.hold(lifetime)  // so that nobody but the decision can say so
    let base = Stubborn(captured: nil)
    let first = Task {
      var iterator = base.owned(by: lifetime).makeAsyncIterator()
      return await iterator.next(isolation: nil)
    }
    await base.isAsked.awaited()
    lifetime.end()
    base.mayReturn.happen()
    #expect(await first.value == nil)
    LifetimeReaper.resume(lifetime)
  }

  /// Keeps what it is given until it is told to run it.
  private final class SteppedExecutor: SerialExecutor {
    private let jobs = Mutexed<[UnownedJob]>([])

    var isEmpty: Bool { jobs.value.isEmpty }
    func enqueue(_ job: consuming ExecutorJob) { jobs.value.append(UnownedJob(job)) }
    func asUnownedSerialExecutor() -> UnownedSerialExecutor { UnownedSerialExecutor(ordinary: self) }

    /// By one thread at a time, while nobody adds.
    func runFirst() {
      let job = jobs.value[0]
      jobs.value.removeFirst()
      job.runSynchronously(on: asUnownedSerialExecutor())
    }
  }

  private actor Reader {
    nonisolated let executor = SteppedExecutor()
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }
    private let journal: Journal<Int>

    init(_ journal: Journal<Int>) { self.journal = journal }

    func read(_ numbers: some AsyncSequence<Int, Never> & Sendable) async {
      for await number in numbers { journal.write(number) }
    }
  }

  @Test func anElementOnItsWayToTheLoopIsDroppedAtTheEnd() {
    let (lifetime, journal, isOver) = (OwnerLifetime(), Journal<Int>(), Event())
    let reader = Reader(journal)
    let executor = reader.executor
    let (stream, continuation) = AsyncStream.makeStream(of: Int.self)
    Task {
      await reader.read(stream.owned(by: lifetime))
      isOver.happen()
    }
    #expect(eventually { !executor.isEmpty })
    executor.runFirst()  // to the first question
    continuation.yield(1)
    #expect(eventually { !executor.isEmpty })
    lifetime.end()
    executor.runFirst()
    #expect(
      eventually {
        if !executor.isEmpty { executor.runFirst() }
        return isOver.isPast
      })
    #expect(journal.entries.isEmpty)
  }

  @Test func anIteratorThatIsNotAskedLetsGoOfItsBaseAtTheEnd() async {
    let lifetime = OwnerLifetime()
    var captured: TokenOwner? = TokenOwner()
    let hasGone = goodbye(of: captured!)
    var iterator = Stubborn(captured: captured).owned(by: lifetime).makeAsyncIterator()
    captured = nil
    lifetime.end()
    #expect(await Task.detached { hasGone.comesLater() }.value)
    #expect((try? await iterator.next()) == .some(nil))
  }

  @Test func aBaseThatDoesNotAnswerIsAbandoned() async {
    let lifetime = OwnerLifetime()
    var captured: TokenOwner? = TokenOwner()
    let hasGone = goodbye(of: captured!)
    let (isAsked, mayReturn): (Event, Event)
    let first: Task<Int?, Never>
    do {
      let base = Stubborn(captured: captured)
      (isAsked, mayReturn) = (base.isAsked, base.mayReturn)
      first = Task {
        var iterator = base.owned(by: lifetime).makeAsyncIterator()
        return await iterator.next(isolation: nil)
      }
    }
    captured = nil
    await isAsked.awaited()
    lifetime.end()
    #expect(await first.value == nil)
    mayReturn.happen()
    #expect(await Task.detached { hasGone.comesLater() }.value)
  }

  @Test func theTaskThatWaitsCanBeCancelled() async {
    let lifetime = OwnerLifetime()
    let base = Stubborn(captured: nil)
    let waiting = Task {
      for await _ in base.owned(by: lifetime) { Issue.record("an element") }
    }
    await base.isAsked.awaited()
    waiting.cancel()
    await waiting.value
    #expect(lifetime.isAlive)
    base.mayReturn.happen()
  }

  @Test func anIteratorThatIsDroppedEndsItsTask() async {
    let lifetime = OwnerLifetime()
    let (stream, continuation) = AsyncStream.makeStream(of: Int.self)
    let event = Event()
    continuation.onTermination = { _ in event.happen() }
    continuation.yield(1)
    for await _ in stream.owned(by: lifetime) { break }
    // The stream itself is still there, and its task waits for the next question only.
    #expect(!event.isPast && lifetime.memberCapacity <= 64)
    continuation.finish()
  }
}

extension DispatchSemaphore {
  /// `comes`, which is not for asynchronous code, for tests that have a thread to spare.
  fileprivate func comesLater() -> Bool { waitUntilSignalled() }
}
