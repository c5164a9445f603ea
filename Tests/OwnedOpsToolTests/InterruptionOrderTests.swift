import Foundation
import Testing

@testable import OwnedOpsTool

/// Signals that come so quickly that what they lead to changes places. Without processes.
@Suite(.timeLimit(.minutes(1)))
struct InterruptionOrderTests {
  /// A command named `long` runs until it is killed; all others succeed at once.
  private final class Host: CommandHost {
    final class Command: RunningCommand {
      let isLong: Bool
      let isAwaited = DispatchSemaphore(value: 0)
      private let killed = Guarded<(isKilled: Bool, continuation: CheckedContinuation<Void, Never>?)>((false, nil))

      init(isLong: Bool) { self.isLong = isLong }

      func signal(_ number: Int32) {
        guard number == SIGKILL else { return }
        killed.withLock { killed in
          defer { killed.continuation = nil }
          killed.isKilled = true
          return killed.continuation
        }?.resume()
      }

      func end() async -> CommandEnd {
        guard isLong else { return .exited(.status(0), nil) }
        isAwaited.signal()
        await withCheckedContinuation { continuation in
          let isKilled = killed.withLock { killed in
            if !killed.isKilled { killed.continuation = continuation }
            return killed.isKilled
          }
          if isKilled { continuation.resume() }
        }
        return .exited(.signal(SIGKILL), nil)
      }
    }

    let long = Command(isLong: true)
    let started = Guarded<[String]>([])

    func start(_ request: CommandRequest, output: JobOutput) async throws(ChildProcess.StartFailure) -> any RunningCommand {
      started.withLock { $0.append(request.job) }
      return request.job == "long" ? long : Command(isLong: false)
    }

    func end(count: @escaping @Sendable (Int) -> Void) {}
    func hurry() {}
  }

  @Test func nothingBeginsAfterASecondSignalThatIsHeardOfFirst() throws {
    let file = try RunFile(
      Data(#"{"jobs":[{"name":"long","command":["x"]},{"name":"next","command":["x"]}]}"#.utf8), source: "test")
    var options = try RunOptions(Arguments([Array("-".utf8)], syntax: RunOptions.syntax))
    options.jobs = 1
    options.keepsGoing = true
    options.grace = .seconds(3600)
    let host = Host()
    let session = try RunSession(file, options, recorder: nil, host: host)
    let hasEnded = DispatchSemaphore(value: 0)
    let summary = Guarded<RunSummary?>(nil)
    Thread.detachNewThread {
      let result = session.run()
      summary.withLock { $0 = result }
      hasEnded.signal()
    }
    host.long.isAwaited.wait()
    session.interrupt(2)
    hasEnded.wait()
    session.interrupt(1)
    #expect(host.started.withLock { $0 } == ["long"])
    #expect(summary.withLock { $0?.cancelled } == 2)
  }
}
