import Foundation
import Testing

@testable import OwnedOperations
@testable import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// Transfers that several askers share: each asker hears of its end once or has left, nothing is sent for nobody, no turn is lost.
@Suite(.serialized) struct CoalescingModelTests {
  private final class Asker: TransferSubscriber, @unchecked Sendable {  // the baton holder's
    let name: String
    let acceptedStatus = 200..<300
    var ends = 0 { didSet { ModelRun.note(book) } }
    var hasFailed = false
    var hasLeft = false { didSet { ModelRun.note(book) } }
    private let book = ModelObject("asker")

    init(_ name: String) { self.name = name }

    var isWanted: Bool {
      ModelRun.note(book)
      return !hasLeft
    }

    func transferDidBegin(attempt: Int) {}
    func transferDidProgress(_ progress: TransferProgress, attempt: Int) {}

    func transferDidEnd(_ result: Result<Exchange, RequestError>, head: ResponseHead?, attempt: Int) {
      ends += 1
      if case .failure = result { hasFailed = true }
    }
  }

  /// A client's transfers to one host, one at a time, and the server.
  private final class Scene: @unchecked Sendable {  // the baton holder's, but for what is guarded
    let run: ModelRun
    private let turns = Guarded<[@Sendable () -> Void]>([])
    private let open = Guarded<[SessionTask]>([])
    private(set) var hub: TransferHub!
    private(set) var askers: [Asker] = []
    private static let host = "http://host"

    init(_ run: ModelRun) {
      self.run = run
      let limits = HostLimits(limit: 1) { [turns] block in turns.withLock { $0.append(block) } }
      hub = TransferHub(session: TransferSession { [open] task in open.withLock { $0.append(task) } }, limits: limits)
    }

    func asker(_ name: String) -> Asker {
      let asker = Asker(name)
      askers.append(asker)
      return asker
    }

    @discardableResult
    func ask(_ asker: Asker, for path: String = "news") -> TransferHub.Place? {
      guard let url = URL(string: "\(Self.host)/\(path)") else { return nil }
      let outgoing = Outgoing(urlRequest: URLRequest(url: url), body: .none)
      return hub.subscribe(asker, attempt: 1, to: outgoing, key: TransferKey(outgoing.urlRequest), priority: .normal)
    }

    func leave(_ asker: Asker, _ place: TransferHub.Place?) {
      asker.hasLeft = true
      place?.leave()
    }

    /// What the queue of turns does.
    func runTurns() {
      while let block = turns.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { block() }
    }

    /// - Parameter status: 302 sends it on.
    func answerOne(status: Int = 200) {
      guard let task = open.withLock({ $0.isEmpty ? nil : $0.removeFirst() }), let url = URL(string: Self.host) else { return }
      let headers: HeaderFields = status == 302 ? ["Location": "/elsewhere"] : [:]
      task.receiver?.taskDidReceive(ResponseHead(status: status, headers: headers, url: url))
      task.receiver?.taskDidReceive(Data([1]))
      task.takeReceiver()?.taskDidComplete(nil)
    }

    /// Nothing more is done by threads of the scenario: all that can come to its end does.
    func expectEnds() {
      for task in open.withLock({ $0 }) {
        guard let transfer = task.receiver as? Transfer else { continue }
        run.expect(transfer.isUnderWay, "a task goes on of a transfer that is over")
      }
      let last = asker("last")
      ask(last, for: "last")
      for _ in 0..<8 {
        runTurns()
        answerOne()
      }
      for asker in askers {
        run.expect(asker.ends == 1 || asker.hasLeft && asker.ends == 0, "\(asker.name) has heard of \(asker.ends) ends")
        run.expect(!asker.hasFailed, "\(asker.name) has heard of a failure")
      }
    }
  }

  private static func explore(
    _ name: String, preemptions: Int = 2, _ location: SourceLocation = #_sourceLocation,
    _ scenario: @escaping @Sendable (Scene) -> Void
  ) {
    ModelExplorer("coalescing: \(name)").expectNothing(preemptions: preemptions, location) { run in
      let scene = Scene(run)
      scenario(scene)
      scene.expectEnds()
    }
  }

  @Test func twoAskAtOnce() {
    Self.explore("ask | ask | answer", preemptions: 1) { scene in
      let (first, second) = (scene.asker("first"), scene.asker("second"))
      scene.run.concurrently(
        ("first", { scene.ask(first) }), ("second", { scene.ask(second) }), ("server", { scene.answerOne() }))
    }
  }

  @Test func somebodyAsksWhileTheAnswerComes() {
    Self.explore("answer | ask") { scene in
      let (first, second) = (scene.asker("first"), scene.asker("second"))
      scene.ask(first)
      scene.run.concurrently(("server", { scene.answerOne() }), ("second", { scene.ask(second) }))
    }
  }

  @Test func somebodyAsksWhileTheLastLeaves() {
    Self.explore("leave | ask") { scene in
      let (first, second) = (scene.asker("first"), scene.asker("second"))
      let place = scene.ask(first)
      scene.run.concurrently(("first", { scene.leave(first, place) }), ("second", { scene.ask(second) }))
    }
  }

  @Test func theLastTwoLeaveWhileTheAnswerComes() {
    Self.explore("leave | leave | answer", preemptions: 1) { scene in
      let (first, second) = (scene.asker("first"), scene.asker("second"))
      let places = [scene.ask(first), scene.ask(second)]
      scene.run.concurrently(
        ("first", { scene.leave(first, places[0]) }), ("second", { scene.leave(second, places[1]) }),
        ("server", { scene.answerOne() }))
    }
  }

  /// Its turn comes when the one before it leaves.
  @Test func theLastLeavesWhileItsTurnComes() {
    Self.explore("leave | leave in line | turns") { scene in
      let (first, second) = (scene.asker("first"), scene.asker("second"))
      let places = [scene.ask(first, for: "other"), scene.ask(second)]
      scene.run.concurrently(
        ("first", { scene.leave(first, places[0]) }), ("second", { scene.leave(second, places[1]) }),
        ("turns", { scene.runTurns() }))
    }
  }

  @Test func theLastLeavesWhileItIsSentOn() {
    Self.explore("redirect | leave") { scene in
      let asker = scene.asker("asker")
      let place = scene.ask(asker)
      scene.run.concurrently(("server", { scene.answerOne(status: 302) }), ("asker", { scene.leave(asker, place) }))
    }
  }

  @Test func somebodyAsksWhileItIsSentOn() {
    Self.explore("redirect | ask") { scene in
      let (first, second) = (scene.asker("first"), scene.asker("second"))
      scene.ask(first)
      scene.run.concurrently(("server", { scene.answerOne(status: 302) }), ("second", { scene.ask(second) }))
    }
  }
}
