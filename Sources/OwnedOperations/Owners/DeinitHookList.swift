/// A hook that waits for its object's end.
///
/// `next` and `identifier` are written before the node is taken out of its list, and only under the lock of the shard that holds it. The
/// rest is constant.
final class DeinitHookNode {
  typealias Body = @Sendable (Unmanaged<AnyObject>, DeinitHook) -> Void  // as the public hooks, from which it is cast

  let name: String?
  let body: Body
  fileprivate(set) var identifier: UInt64 = 0
  /// Kept by the list, as each of the ring is.
  fileprivate var next: Borrowed<DeinitHookNode>?

  init(name: String?, body: @escaping Body) {
    self.name = name
    self.body = body
  }

  /// The next one of the ring, which has no end.
  fileprivate var following: DeinitHookNode { next.unsafelyUnwrapped.object }
}

/// The hooks of one object in order of identifier: one word, a ring entered at its last node. It owns its nodes.
///
/// Guarded by the lock of the shard that holds it. Whatever is taken out is handed to the caller, to be released outside the lock.
struct DeinitHookList {
  private var last: Retained<DeinitHookNode>?

  var isEmpty: Bool { last == nil }

  mutating func append(_ node: DeinitHookNode, identifier: UInt64) {
    node.identifier = identifier
    let owned = Retained(node)
    if let last {
      last.with {
        node.next = $0.next
        $0.next = owned.borrowed
      }
    } else {
      node.next = owned.borrowed
    }
    last = owned
  }

  mutating func popFirst() -> DeinitHookNode? {
    guard let last else { return nil }
    return remove(after: last.borrowed.object)
  }

  /// Takes linear time in the number of hooks of the object, as does removing by name.
  mutating func remove(identifier: UInt64) -> DeinitHookNode? { removeFirst { $0.identifier == identifier } }
  mutating func remove(name: String) -> DeinitHookNode? { removeFirst { $0.name == name } }

  func contains(identifier: UInt64) -> Bool {
    guard let tail = last?.borrowed.object else { return false }
    var node = tail
    repeat {
      if node.identifier == identifier { return true }
      node = node.following
    } while node !== tail
    return false
  }

  private mutating func removeFirst(where matches: (DeinitHookNode) -> Bool) -> DeinitHookNode? {
    guard let tail = last?.borrowed.object else { return nil }
    var previous = tail
    repeat {
      let node = previous.following
      if matches(node) { return remove(after: previous) }
      previous = node
    } while previous !== tail
    return nil
  }

  private mutating func remove(after previous: DeinitHookNode) -> DeinitHookNode {
    let node = previous.following
    if node === previous {
      last = nil
    } else {
      previous.next = node.next
      if let last, last.borrowed.refers(to: node) { self.last = Retained(adopting: Borrowed(previous)) }
    }
    node.next = nil
    return Retained(adopting: Borrowed(node)).take()
  }
}
