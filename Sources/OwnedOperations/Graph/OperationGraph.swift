import Foundation

/// Closures that depend on each other, to be run on a queue in an order that their dependencies allow, as often as wished.
///
/// ```swift
/// let graph = OperationGraph(lifetime: OwnerLifetime())
/// let load = graph.node("load") { print("loading") }
/// let decode = graph.node("decode", priority: .high) { print("decoding") }
/// load.precedes(decode)
/// let run = try graph.run(on: OwnerScopedQueue())
/// try await run.value
/// ```
///
/// A node costs some 30 bytes besides its closure's context, an edge 16, and no object; graphs of millions of nodes are fine.
///
/// A run works on the graph as it was when the run began. Editing the graph meanwhile is for later runs. Several runs may be under way at
/// once. The closures are kept until the graph has gone and its runs are over. They may capture nodes of the graph, but a closure that
/// captures the graph keeps it alive for ever.
///
/// All members may be used from any thread.
public final class OperationGraph: Sendable {
  let storage: GraphStorage

  /// Makes a graph without nodes.
  /// - Parameter lifetime: owns the graph. Its end cancels what has not started of every run, nodes with lifetimes of their own included.
  public init(lifetime: OwnerLifetime) {
    storage = GraphStorage(lifetime: lifetime)
  }

  /// Makes a graph for an owner that holds a token.
  public convenience init(owner: some OperationOwner) {
    self.init(lifetime: owner.lifetimeToken.lifetime)
  }

  /// Makes a graph for any object, see ``OwnerLifetime/of(_:)-(AnyObject)``.
  @_disfavoredOverload
  public convenience init(owner: AnyObject) {
    self.init(lifetime: OwnerLifetime.of(owner))
  }

  deinit {
    storage.close()
  }

  // MARK: Nodes

  /// Adds a node that belongs to the owner of the graph.
  /// - Parameters:
  ///   - name: for errors and exports. Without one the node is called by its place, for example `node 7`.
  ///   - priority: among nodes and other work that is ready.
  ///   - body: what it throws is the node's outcome.
  /// - Complexity: amortised constant.
  @discardableResult
  public func node(
    _ name: String? = nil, priority: Operation.QueuePriority = .normal, _ body: @escaping @Sendable () throws -> Void
  ) -> Node {
    Node(storage: storage, index: storage.append(name: name, level: PriorityLevel.of(priority), lifetime: nil, body))
  }

  /// Adds a node that belongs to an owner of its own, whose end cancels it if it has not started.
  /// - Complexity: amortised constant.
  @discardableResult
  public func node(
    _ name: String? = nil, priority: Operation.QueuePriority = .normal, lifetime: OwnerLifetime,
    _ body: @escaping @Sendable () throws -> Void
  ) -> Node {
    Node(storage: storage, index: storage.append(name: name, level: PriorityLevel.of(priority), lifetime: lifetime, body))
  }

  /// Adds a node that belongs to an owner, and is given it: held weakly until the body runs, strongly while it runs.
  /// - Complexity: amortised constant.
  @discardableResult
  public func node<Owner: OperationOwner & Sendable>(
    _ name: String? = nil, priority: Operation.QueuePriority = .normal, owner: Owner, _ body: @escaping @Sendable (Owner) throws -> Void
  ) -> Node {
    makeNode(name, priority, owner, owner.lifetimeToken.lifetime, body)
  }

  /// Adds a node that belongs to an object without a token, and is given it: held weakly until the body runs, strongly while it runs.
  ///
  /// The object's lifetime is that of ``OwnerLifetime/of(_:)-(AnyObject)``.
  /// - Complexity: amortised constant, on average.
  @_disfavoredOverload @discardableResult
  public func node<Owner: AnyObject & Sendable>(
    _ name: String? = nil, priority: Operation.QueuePriority = .normal, owner: Owner, _ body: @escaping @Sendable (Owner) throws -> Void
  ) -> Node {
    makeNode(name, priority, owner, OwnerLifetime.of(owner as AnyObject), body)
  }

  private func makeNode<Owner: AnyObject & Sendable>(
    _ name: String?, _ priority: Operation.QueuePriority, _ owner: Owner, _ lifetime: OwnerLifetime,
    _ body: @escaping @Sendable (Owner) throws -> Void
  ) -> Node {
    let hold = OwnerHold.of(owner, lifetime)
    let erased = ErasedOwnerBody.eraseThrowing(body)
    let index = storage.append(name: name, level: PriorityLevel.of(priority), lifetime: lifetime, holdsOwner: true) {
      switch Worker.beginNode(of: hold) {
      case .begins(let object):
        defer { Worker.endNode(of: hold, object) }
        try hold.call(erased, with: object)
      case .heldBack: throw NodeHeldBack(hold: hold)
      case .gone: throw NodeOwnerHasGone()
      }
    }
    return Node(storage: storage, index: index)
  }

  /// What a node that did not succeed means for those that depend on it. With `runAlways`, which is Foundation's rule and the default, it
  /// means nothing. With `requireSuccess` they are cancelled with ``CancellationReason/dependencyFailed(_:)``, and in turn those that
  /// depend on them. Counts for runs that begin later.
  public var dependencyPolicy: DependencyPolicy {
    get { storage.policy }
    set { storage.policy = newValue }
  }

  /// How many nodes have been added.
  public var nodeCount: Int { storage.nodeCount }

  /// Whose end cancels the graph's runs.
  public var lifetime: OwnerLifetime { storage.lifetime }

  /// Looks for mistakes without running anything. A graph without nodes is none.
  /// - Throws: ``OwnerScopedQueueError/foreignNode(_:)`` if an attempt was made to connect a node with one of another graph, which spoils
  ///   both graphs. ``OwnerScopedQueueError/dependencyCycle(_:)`` if there is a cycle; it names the nodes of one.
  /// - Complexity: linear in nodes and edges after the graph was edited, else constant.
  public func validate() throws(OwnerScopedQueueError) {
    _ = try storage.compiled()
  }

  /// A node of a graph. Holds neither the graph nor its closures.
  public struct Node: Hashable, Sendable, CustomStringConvertible {
    let storage: GraphStorage
    let index: UInt32

    /// As given, or for example `node 7`.
    public var name: String { storage.name(of: index) }
    /// The ``name``.
    public var description: String { name }

    /// Has the other nodes wait for this one. Connecting two nodes again changes nothing.
    ///
    /// The nodes must belong to the same graph; if not, `validate()` and `run(on:)` of both graphs throw
    /// ``OwnerScopedQueueError/foreignNode(_:)``.
    /// - Complexity: linear in the other nodes. One alone needs no array, which counts where there are millions of edges.
    public func precedes(_ other: Node, _ others: Node...) {
      storage.connect(self, to: other)
      for other in others { storage.connect(self, to: other) }
    }

    /// Has this node wait for the other ones. Connecting two nodes again changes nothing.
    ///
    /// The nodes must belong to the same graph; if not, `validate()` and `run(on:)` of both graphs throw
    /// ``OwnerScopedQueueError/foreignNode(_:)``.
    /// - Complexity: linear in the other nodes. One alone needs no array, which counts where there are millions of edges.
    public func depends(on other: Node, _ others: Node...) {
      storage.connect(other, to: self)
      for other in others { storage.connect(other, to: self) }
    }

    /// Has each of the other nodes wait for this one.
    /// - Complexity: linear in the other nodes.
    @available(*, deprecated, message: "Call precedes(_:_:) with the nodes, or for each of them")
    public func precedes(_ others: [Node]) { for other in others { precedes(other) } }

    /// Has this node wait for each of the other ones.
    /// - Complexity: linear in the other nodes.
    @available(*, deprecated, message: "Call depends(on:_:) with the nodes, or for each of them")
    public func depends(on others: [Node]) { for other in others { depends(on: other) } }

    /// Nodes are equal if they are the same node of the same graph.
    public static func == (left: Node, right: Node) -> Bool { left.index == right.index && left.storage === right.storage }
    /// Hashes which node it is.
    public func hash(into hasher: inout Hasher) {
      hasher.combine(ObjectIdentifier(storage))
      hasher.combine(index)
    }
  }
}

/// Thrown by a node's closure that has not called the node's body: only the owner's own bodies hold it.
struct NodeHeldBack: Error { let hold: OwnerHold }

/// Thrown by a node's closure that has not called the node's body: the owner has gone, though its lifetime has not ended.
struct NodeOwnerHasGone: Error {}
