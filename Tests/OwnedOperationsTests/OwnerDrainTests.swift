import Foundation
import Testing

@testable import OwnedOperations

/// Finishing an owner's work before it goes.
@Suite struct OwnerDrainTests {
  private let lifetime = OwnerLifetime()
  private let journal = Journal<String>()

  @Test func whatIsPendingIsDoneThenTheOwnerEnds() async {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let other = OwnerLifetime()
    for number in 0..<3 { queue.async(lifetime: lifetime) { [journal] in journal.write("\(number)") } }
    lifetime.onEnd { [journal] _ in journal.write("end") }
    #expect(await lifetime.drain(on: queue))
    #expect(journal.entries == ["0", "1", "2", "end"] && !lifetime.isAlive && other.isAlive)
  }

  @Test func whatIsAddedMeanwhileIsDoneToo() async {
    let queue = OwnerScopedQueue()
    queue.async(lifetime: lifetime) { [lifetime, journal] in
      queue.async(lifetime: lifetime) {
        queue.async(lifetime: lifetime) { journal.write("third") }
        journal.write("second")
      }
      journal.write("first")
    }
    #expect(await lifetime.drain(on: queue))
    #expect(journal.entries.sorted() == ["first", "second", "third"])
    queue.async(lifetime: lifetime) { Issue.record("has begun") }
    await queue.finished()
  }

  @Test func whenTheTimeIsUpTheOwnerEndsWithWhatIsLeft() async {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let gate = Gate()
    queue.async(lifetime: lifetime) { gate.pass() }
    queue.async(lifetime: lifetime) { Issue.record("has begun") }
    #expect(gate.hasBegun())
    #expect(await !lifetime.drain(on: queue, timeout: .milliseconds(1)))
    #expect(!lifetime.isAlive)
    gate.open()
    await queue.finished()
    #expect(queue.statistics.skippedForEndedOwners == 1)
  }

  @Test func aTimeOutOfNothingEndsAtOnce() async {
    let queue = OwnerScopedQueue()
    #expect(await lifetime.drain(on: queue, timeout: .zero) && !lifetime.isAlive)
    let busy = OwnerLifetime()
    queue.isSuspended = true
    queue.async(lifetime: busy) { Issue.record("has begun") }
    #expect(await !busy.drain(on: queue, timeout: .zero) && !busy.isAlive)
    queue.isSuspended = false
    await queue.finished()
  }

  @Test func aCancelledDrainEndsTheOwner() async {
    let queue = OwnerScopedQueue()
    queue.isSuspended = true
    queue.async(lifetime: lifetime) { Issue.record("has begun") }
    let drain = Task { [lifetime] in await lifetime.drain(on: queue) }
    drain.cancel()
    #expect(await !drain.value && !lifetime.isAlive)
    queue.isSuspended = false
    await queue.finished()
  }

  @Test func aDrainInAQueueThatIsFullEndsTheOwnerAllTheSame() async {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let drained = OwnerLifetime()
    let ended = Event()
    let gate = Gate()
    drained.onEnd { _ in ended.happen() }
    // The time passes when the job has begun, and not before.
    DrainOutcome.timerQueue.suspend()
    let drain = Task {
      try await queue.run(lifetime: .forTests) {
        // Begins when the drain has left it the only permit, and ends with its owner.
        queue.async(lifetime: drained) { gate.pass() }
        return await drained.drain(on: queue, timeout: .milliseconds(300))
      }
    }
    #expect(gate.hasBegun())
    DrainOutcome.timerQueue.resume()
    #expect(ended.happens())
    gate.open()
    #expect(await (try? drain.value) == false)
    #expect(queue.becomesIdle())
  }

  @Test func aDrainThatGaveUpStandsForNoWait() async {
    let queue = OwnerScopedQueue()
    let drained = OwnerLifetime()
    let (first, gaveUp, mayEnd, isOver) = (Gate(), Event(), Event(), Event())
    queue.async(lifetime: drained) {
      first.pass()
      queue.waitUntilAllOperationsAreFinished()
      isOver.happen()
    }
    #expect(first.hasBegun())
    let other = Task {
      try await queue.run(lifetime: .forTests) {
        await drained.drain(on: queue, timeout: .milliseconds(1))
        gaveUp.happen()
        await mayEnd.awaited()
      }
    }
    await gaveUp.awaited()
    first.open()
    #expect(eventually { isOver.isPast || queue.snapshot.waitingWorkers == 1 })
    #expect(!isOver.isPast)
    mayEnd.happen()
    try? await other.value
    #expect(isOver.happens())
  }

  @Test func anOwnerThatHasEndedIsNotDrained() async {
    lifetime.end()
    #expect(await !lifetime.drain(on: OwnerScopedQueue()))
  }

  @Test func workOfTheOwnerMayDrainIt() async throws {
    let queue = OwnerScopedQueue(maxConcurrentOperationCount: 1)
    let task = lifetime.task(on: queue) { [lifetime, journal] in
      queue.async(lifetime: lifetime) { journal.write("behind") }
      journal.write("\(await lifetime.drain(on: queue))")
    }
    await #expect(throws: CancellationError.self) { try await task.value }
    #expect(journal.entries == ["behind", "true"])
  }

  @Test func drainingTheLifetimeOfTheProcessStopsItWithAMessage() async {
    let child = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      await OwnerLifetime.process.drain(on: OwnerScopedQueue())
    }
    #if DEBUG
      let message = String(decoding: child?.standardErrorContent ?? [], as: UTF8.self)
      #expect(message.contains("OwnerLifetime.process can't be drained"))
    #else
      #expect(child != nil)
    #endif
  }
}
