import Foundation
import Testing

@testable import OwnedOpsTool

/// What a process that is being started has of others' pipes, for a moment.
@Suite struct StartsUnderWayTests {
  @Test func aCopyOfAProcessThatIsNotItsProgramYetIsNobodys() async throws {
    let starts = StartsUnderWay()
    let pipe = try #require(Pipe.open())
    defer { close(pipe.reading) }
    let (isUnderWay, mayEnd) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    // In place of a fork, which copies all descriptors, and the exec that closes them.
    Thread.detachNewThread {
      starts.during {
        let copy = dup(pipe.writing)
        isUnderWay.signal()
        mayEnd.wait()
        close(copy)
      }
    }
    await passed(isUnderWay)
    close(pipe.writing)
    async let isHeld = starts.leaveAWriter(to: pipe.reading)
    while starts.waiting == 0 { await Task.yield() }
    // One that begins now has no copy, and need not end.
    let mayEndLater = DispatchSemaphore(value: 0)
    Thread.detachNewThread {
      starts.during {
        isUnderWay.signal()
        mayEndLater.wait()
      }
    }
    await passed(isUnderWay)
    mayEnd.signal()
    #expect(await !isHeld)
    mayEndLater.signal()
  }

  @Test func whoHasOutlivedItsStartHoldsThePipe() async throws {
    let starts = StartsUnderWay()
    let pipe = try #require(Pipe.open())
    defer { close(pipe.reading) }
    let copy = starts.during { dup(pipe.writing) }
    close(pipe.writing)
    #expect(await starts.leaveAWriter(to: pipe.reading))
    close(copy)
    #expect(await !starts.leaveAWriter(to: pipe.reading))
  }

  private func passed(_ semaphore: DispatchSemaphore) async {
    await withCheckedContinuation { continuation in
      Thread.detachNewThread {
        semaphore.wait()
        continuation.resume()
      }
    }
  }
}
