import Foundation
import OwnedOperations

extension Benchmark {
  static var events: Benchmark {
    Benchmark(
      "events", "a post to 0, 1 and 100 observers with owners, and to one on a queue, next to Foundation's own; observers that come and go"
    ) { session in
      for observers in [0, 1, 100] {
        let count = session.pick(observers == 100 ? 20_000 : 400_000, quick: observers == 100 ? 500 : 10_000)
        try session.compare(
          "a post, \(observers) observers", count: count, ours: Audience.owned(observers).contender("observe(owner:)", posts: count),
          peer: Audience.foundations(observers).contender("addObserver, weak", posts: count))
      }
      let deliveries = session.pick(100_000, quick: 2_000)
      try session.compare(
        "a post to an observer on a queue", count: deliveries,
        ours: Contender("observe(owner:on:)", operations: deliveries) {
          let (center, listener, queue) = (NotificationCenter(), Listener(), OwnerScopedQueue())
          center.observe(Audience.name, owner: listener, on: queue) { listener, _ in listener.hear() }
          for _ in 0..<deliveries { center.post(name: Audience.name, object: nil) }
          queue.waitUntilAllOperationsAreFinished()
          precondition(listener.heard == deliveries)
        },
        // Whose post waits for its observers.
        peer: Contender("addObserver with a queue", operations: deliveries) {
          let (center, listener, queue) = (NotificationCenter(), Listener(), OperationQueue())
          queue.maxConcurrentOperationCount = 1
          let token = center.addObserver(forName: Audience.name, object: nil, queue: queue) { [weak listener] _ in listener?.hear() }
          for _ in 0..<deliveries { center.post(name: Audience.name, object: nil) }
          queue.waitUntilAllOperationsAreFinished()
          precondition(listener.heard == deliveries)
          center.removeObserver(token)
        })
      let count = session.pick(100_000, quick: 2_000)
      try session.compare(
        "observers that come and go", count: count,
        ours: Contender("observe(owner:)", operations: count) {
          let center = NotificationCenter()
          for _ in 0..<count {
            let listener = Listener()
            center.observe(Audience.name, owner: listener) { listener, _ in listener.hear() }
          }
        },
        peer: Contender("addObserver, removeObserver", operations: count) {
          let center = NotificationCenter()
          for _ in 0..<count {
            let listener = Listener()
            let token = center.addObserver(forName: Audience.name, object: nil, queue: nil) { [weak listener] _ in listener?.hear() }
            center.removeObserver(token)
          }
        })
    }
  }
}

private final class Listener: OperationOwner, @unchecked Sendable {  // hears on one thread
  let lifetimeToken = OwnerLifetime.Token()
  private(set) var heard = 0
  func hear() { heard &+= 1 }
}

/// A center with a number of observers of one name, and one of another.
private final class Audience {
  static let name = Notification.Name("benchmark")
  private static let otherName = Notification.Name("other")

  private let center = NotificationCenter()
  private let listeners: [Listener]
  private let other = Listener()

  private init(_ count: Int) { listeners = (0..<count).map { _ in Listener() } }

  static func owned(_ count: Int) -> Audience {
    let audience = Audience(count)
    for listener in audience.listeners { audience.center.observe(name, owner: listener) { listener, _ in listener.hear() } }
    audience.center.observe(otherName, owner: audience.other) { listener, _ in listener.hear() }
    return audience
  }

  static func foundations(_ count: Int) -> Audience {
    let audience = Audience(count)
    func observe(_ name: Notification.Name, _ listener: Listener) {
      _ = audience.center.addObserver(forName: name, object: nil, queue: nil) { [weak listener] _ in listener?.hear() }
    }
    for listener in audience.listeners { observe(name, listener) }
    observe(otherName, audience.other)
    return audience
  }

  func contender(_ label: String, posts: Int) -> Contender {
    Contender(label, operations: posts) { [self] in
      let before = listeners.map(\.heard)
      for _ in 0..<posts { center.post(name: Self.name, object: nil) }
      precondition(zip(listeners, before).allSatisfy { $0.heard == $1 + posts }, "\(label): somebody has not heard everything")
    }
  }
}
