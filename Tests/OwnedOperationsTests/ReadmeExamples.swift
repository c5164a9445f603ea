// The README's examples, word for word, so that they compile. `DocumentationTests` holds the two together and runs what can be run.

import Foundation
import OwnedOperations

final class Screen: OperationOwner, Sendable {
  let lifetimeToken = OwnerLifetime.Token(name: "screen")
}

extension Screen {
  func refresh() {}
  func reload() throws {}
  func title() async -> String { "title" }
}

enum ReadmeExamples {
  static func owners() {
    var screen: Screen? = Screen()
    let id = screen!.ownerID
    screen!.lifetime.onEnd { id in print("\(id) has gone") }
    screen = nil  // the hook runs here, on this thread
    print(OwnerLifetime.isAlive(id))  // false: identifiers are never reused
  }

  static func trees() {
    let session = OwnerLifetime(name: "session")
    let upload = OwnerLifetime(name: "upload", parent: session)
    upload.onEnd { _ in print("upload stopped") }
    session.end()
    print(upload.isAlive, upload.endReason!)  // false its parent owner#… ended
  }

  static func hooks(session: OwnerLifetime, upload: OwnerLifetime) throws {
    let hook = session.onEnd { _ in print("never printed") }
    hook.cancel()
    try upload.setParent(nil)  // throws OwnerLifetimeError, and names the owners, if the parents would form a cycle
  }

  static func deinitHooks(connection: Screen) {
    let hook = onDeinit(of: connection) { _, hook in print("hook", hook.identifier) }
    hook.cancel()
    cancelDeinitHooks(of: connection)
    print(DeinitHook.mechanism)
  }

  static func notifications() {
    let lifetime = OwnerLifetime()
    lifetime.postsDidEndNotification = true
    let observer = NotificationCenter.default.addObserver(forName: .ownerDidEnd, object: nil, queue: nil) { note in
      print("ended:", note.userInfo![OwnerLifetime.ownerIDKey]!)
    }
    lifetime.end()
    NotificationCenter.default.removeObserver(observer)
  }

  static func anyObject() {
    final class Connection: Sendable { let peer = "10.0.0.7" }
    let connection = Connection()
    onDeinit(of: connection, name: "log") { connection, _ in
      print("lost", connection._withUnsafeGuaranteedRef { $0.peer })
    }
    let lifetime = OwnerLifetime.of(connection)  // ends when the connection goes
    print(lifetime)
  }

  static func plainGCD(screen: Screen) {
    DispatchQueue.global().async(owner: screen) { screen in screen.refresh() }
    DispatchQueue.global().asyncAfter(deadline: .now() + 3600, owner: screen) { screen in screen.refresh() }
    DispatchQueue.global().async(lifetime: screen.lifetime) { print("the screen is there") }
    DispatchQueue.global().asyncAfter(deadline: .now() + 3600, lifetime: screen.lifetime) { print("still there") }
  }

  static func operations(lifetime: OwnerLifetime, load: @escaping @Sendable () throws -> Void, render: @escaping @Sendable () -> Void) {
    let fetch = OwnedBlockOperation(lifetime: lifetime) { try load() }
    let show = OwnedBlockOperation(lifetime: lifetime) { render() }
    show.addDependency(fetch)
    show.dependencyPolicy = .requireSuccess  // cancelled with a reason if `fetch` fails

    let observation = fetch.observe(\.isFinished, options: [.initial, .new]) { operation, change in
      print(operation.state, change.newValue!)
    }

    OperationQueue().addOperations([fetch, show], waitUntilFinished: true)
    observation.invalidate()
  }

  static func queue(screen: Screen) -> OwnedOperation {
    let queue = OwnerScopedQueue(name: "decoding")
    queue.ownerFairness = .roundRobin  // nobody waits behind another owner's thousand jobs
    queue.async(owner: screen, priority: .high) { screen in screen.refresh() }
    queue.asyncAfter(.seconds(30), owner: screen) { screen in screen.refresh() }
    let operation = queue.addOperation(owner: screen) { screen in try screen.reload() }
    return operation
  }

  static func concurrency(queue: OwnerScopedQueue, screen: Screen) async throws -> String {
    let title = try await queue.run(owner: screen) { screen in await screen.title() }  // CancellationError if the screen goes first
    await queue.finished(ownedBy: screen.lifetime)
    queue.cancelOperations(ownedBy: screen.lifetime)
    queue.maxConcurrentOperationCountPerOwner = 2
    print(queue.statistics.skippedForEndedOwners)
    return title
  }

  static func graph(queue: OwnerScopedQueue, screen: Screen) async throws {
    let graph = OperationGraph(lifetime: screen.lifetime)
    let load = graph.node("load") { try screen.reload() }
    let show = graph.node("show", priority: .high) { screen.refresh() }
    load.precedes(show)
    let run = try graph.run(on: queue)  // throws the cycle, named node by node, if there is one
    try await run.value
    print(graph.mermaid())
  }
}
