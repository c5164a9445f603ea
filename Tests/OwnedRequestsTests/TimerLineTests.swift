import Foundation
import Testing

@testable import OwnedRequests

@Suite struct TimerLineTests {
  /// Nothing is called until the gate is open, however long that takes.
  private func hold(_ line: TimerLine) -> DispatchSemaphore {
    let gate = DispatchSemaphore(value: 0)
    let isHeld = DispatchSemaphore(value: 0)
    _ = line.add(deadline: .now()) {
      isHeld.signal()
      gate.wait()
    }
    isHeld.wait()
    return gate
  }

  @Test func timersAreCalledInTheOrderOfTheirDeadlines() async throws {
    let line = TimerLine()
    let calls = Journal<Int>()
    // Forwards, backwards, and mixed.
    let delays = Array(1...20) + (21...40).reversed() + (41...60).sorted { $0 * 7 % 61 < $1 * 7 % 61 }
    let start = DispatchTime.now()
    let gate = hold(line)
    for delay in delays { _ = line.add(deadline: start + .milliseconds(delay)) { calls.write(delay) } }
    gate.signal()
    try await calls.reaches(60)
    #expect(calls.entries == Array(1...60))
    #expect(line.count == 0)
  }

  @Test func oneThatIsCancelledOrLetGoIsNotCalledAndReleasesItsClosure() async throws {
    let line = TimerLine()
    let calls = Journal<String>()
    let gate = hold(line)
    weak var captured: Screen?
    weak var other: Screen?
    let cancelled = {
      let screen = Screen()
      captured = screen
      return OneShotTimer(after: .zero, in: line) { calls.write("cancelled \(screen)") }
    }()
    var letGo: OneShotTimer? = {
      let screen = Screen()
      other = screen
      return OneShotTimer(after: .zero, in: line) { calls.write("let go \(screen)") }
    }()
    #expect(captured != nil && other != nil && letGo != nil)
    cancelled.cancel()
    letGo = nil
    #expect(captured == nil && other == nil)
    let last = OneShotTimer(after: .zero, in: line) { calls.write("last") }
    gate.signal()
    try await calls.reaches(1)
    #expect(calls.entries == ["last"])
    cancelled.cancel()
    withExtendedLifetime(last) {}
  }

  /// Limits of time that are never reached, as nearly all are.
  @Test func thoseThatAreCancelledDoNotPileUp() {
    let line = TimerLine()
    let kept = (0..<100).map { OneShotTimer(after: .seconds(1000 + $0), in: line) {} }
    for number in 0..<10_000 { OneShotTimer(after: .seconds(60 + number % 7), in: line) {}.cancel() }
    #expect(line.count <= 300)
    for timer in kept { timer.cancel() }
    #expect(line.count <= 200)
  }

  @Test func aTimerMayMakeAndCancelTimers() async throws {
    let line = TimerLine()
    let calls = Journal<Int>()
    let made = Guarded<[OneShotTimer]>([])
    let gate = hold(line)
    @Sendable func make(_ number: Int) {
      let timer = OneShotTimer(after: .zero, in: line) {
        calls.write(number)
        if number < 100 { make(number + 1) }
      }
      let former = made.withLock { made in
        defer { made = [timer] }
        return made
      }
      for timer in former { timer.cancel() }
    }
    make(1)
    gate.signal()
    try await calls.reaches(100)
    #expect(calls.entries == Array(1...100))
  }
}
