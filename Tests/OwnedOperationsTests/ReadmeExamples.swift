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
  var count: Int { 0 }
}

@MainActor final class PhotoModel: OperationOwner {
  let lifetimeToken = OwnerLifetime.Token(name: "photo")
  private(set) var title = ""

  func tap(_ queue: OwnerScopedQueue) {
    queue.run(for: self) {
      try decode()
    } then: { model, result in
      model.title = (try? result.get()) ?? "no picture"
    }
  }

  func show(_ text: String) { title = text }
}

private func decode() throws -> String { "a lake" }

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

  static func queueForms(queue: OwnerScopedQueue, screen: Screen) -> Int? {
    queue.addBarrier(owner: screen) { screen in screen.refresh() }  // alone, or never
    let count = queue.sync(owner: screen) { screen in screen.count }  // waits; nil if the screen has ended
    queue.onError = { owner, error in print("work of \(owner) failed: \(error)") }
    queue.async(owner: screen) { screen in try screen.reload() }  // what it throws goes there
    return count
  }

  static func mainActor(queue: OwnerScopedQueue, model: PhotoModel) {
    OwnerScopedQueue.onMain(owner: model) { model in model.show("loaded") }
    DispatchQueue.onMain(owner: model) { model in model.show("loaded") }
    queue.run(for: model) {
      try decode()
    } onMain: { model, result in
      model.show("\(result)")
    }
  }

  static func protected(screen: Screen) -> Int? {
    let prices = Protected(["apple": 30])
    let price = prices.read { $0["apple"] }  // at the same time as other readers
    prices.write { $0["pear"] = 40 }  // alone
    prices.writeLater(owner: screen) { screen, prices in prices["plum"] = screen.count }  // later, or never
    return price
  }

  static func observers(queue: OwnerScopedQueue, screen: Screen, saved: Notification.Name, document: Screen) {
    let center = NotificationCenter.default
    let observation = center.observe(saved, owner: screen) { screen, notification in screen.refresh() }  // need not be kept
    center.observe(saved, object: document, owner: screen, level: .high, on: queue) { screen, _ in screen.refresh() }
    observation.invalidate()
    center.removeObservers(ownedBy: screen.lifetime, named: saved)  // or of an object, or of a level
  }

  static func events(
    queue: OwnerScopedQueue, screen: Screen, operation: OwnedOperation, numbers: AsyncStream<Int>,
    loadTitle: @escaping @Sendable () async throws -> String
  ) async throws -> String {
    operation.observe(\.state, owner: screen) { screen, operation, change in screen.refresh() }
    for await number in numbers.owned(by: screen.lifetime) { print(number) }  // ends with the screen, also while it waits
    let title = try await screen.lifetime.task(on: queue) { try await loadTitle() }.value  // cancelled with the screen
    return title
  }

  static func scopes(queue: OwnerScopedQueue) async throws -> Int {
    let count = try await withOwnerLifetime(name: "import") { lifetime in  // ends when the body is over
      queue.async(lifetime: lifetime) { print("importing") }
      return try await lifetime.task { 1 }.value
    }
    return count
  }

  static func concurrency(queue: OwnerScopedQueue, screen: Screen) async throws -> String {
    let title = try await queue.run(owner: screen) { screen in await screen.title() }  // CancellationError if the screen goes first
    await queue.finished(ownedBy: screen.lifetime)
    queue.cancelOperations(ownedBy: screen.lifetime)
    queue.maxConcurrentOperationCountPerOwner = 2
    print(queue.statistics.skippedForEndedOwners)
    return title
  }

  static func weakly(queue: OwnerScopedQueue, screen: Screen) async throws {
    try await queue.run(weaklyFor: screen) { screen in
      try await Task.sleep(for: .seconds(60))  // the screen may go meanwhile, which ends the sleep
      screen.object?.refresh()
    }
  }

  static func draining(queue: OwnerScopedQueue, screen: Screen) async {
    await screen.lifetime.drain(on: queue, timeout: .seconds(5))  // waits until nothing of it is pending or executing, then ends it
    print(screen.lifetime.isAlive)  // false: nothing of it starts from here on, though somebody may still hold the screen
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
