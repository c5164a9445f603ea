import Dispatch
import Foundation

/// Ctrl-C, and its relatives: calls the handler, with the signal and how many have come, on a background thread.
final class Interruption: Sendable {
  private let sources = Guarded<[any DispatchSourceSignal]>([])
  private let received = Guarded<(first: Int32?, count: Int)>((nil, 0))

  static let signals = [SIGINT, SIGQUIT, SIGTERM, SIGHUP]

  /// - Parameter handler: must not block: it would keep the next signal waiting.
  init(_ handler: @escaping @Sendable (_ signal: Int32, _ count: Int) -> Void) {
    let queue = DispatchQueue(label: "ownedops.signals", qos: .userInteractive)
    // Whoever started us may have had them blocked, and we have inherited that.
    var signals = sigset_t()
    sigemptyset(&signals)
    for number in Self.signals { sigaddset(&signals, number) }
    pthread_sigmask(SIG_UNBLOCK, &signals, nil)
    let registrations = DispatchGroup()
    for number in Self.signals {
      // One that is ignored from outside (nohup) stays so.
      if number == SIGHUP, System.isIgnored(SIGHUP) { continue }
      signal(number, SIG_IGN)
      let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
      source.setEventHandler { [received] in
        let count = received.withLock { received in
          if received.first == nil { received.first = number }
          received.count += 1
          return received.count
        }
        handler(number, count)
      }
      registrations.enter()
      source.setRegistrationHandler { registrations.leave() }
      source.resume()
      sources.withLock { $0.append(source) }
    }
    // Until then they would be lost, and the first job may send one.
    registrations.wait()
  }

  /// The status that a shell expects after the signal; nil if there was none.
  var exitStatus: Int32? { received.withLock { $0.first }.map { 128 + $0 } }

  /// Until there is somebody to handle it, Ctrl-\ ends the process as Ctrl-C does: with no memory image, and no report by Swift's runtime.
  static func endQuietlyOnQuit() {
    guard !System.isIgnored(SIGQUIT) else { return }
    signal(SIGQUIT) { number in _exit(128 + number) }
  }
}
