/// A hook that waits for its object's end.
///
/// `@unchecked Sendable`: `next` and `identifier` are written only under the lock of the shard that holds the node, before the node is
/// taken out of its list; the rest is constant.
final class DeinitHookNode: @unchecked Sendable {
  typealias Body = @Sendable (Unmanaged<AnyObject>, DeinitHook) -> Void

  let name: String?
  let body: Body
  fileprivate(set) var identifier: UInt64 = 0
  fileprivate unowned(unsafe) var next: DeinitHookNode?

  init(name: String?, body: @escaping Body) {
    self.name = name
    self.body = body
  }
}

/// The hooks of one object in order of identifier: one word, a ring entered at its last node. It owns its nodes.
///
/// Guarded by the lock of the shard that holds it. Whatever is taken out is handed to the caller, to be released outside the lock.
struct DeinitHookList {
  private var last: Unmanaged<DeinitHookNode>?

  var isEmpty: Bool { last == nil }

  mutating func append(_ node: DeinitHookNode, identifier: UInt64) {
    node.identifier = identifier
    let owned = Unmanaged.passRetained(node)
    if let last {
      last._withUnsafeGuaranteedRef {
        node.next = $0.next
        $0.next = node
      }
    } else {
      node.next = node
    }
    last = owned
  }

  mutating func popFirst() -> DeinitHookNode? {
    guard let last else { return nil }
    let tail = last._withUnsafeGuaranteedRef { $0 }
    return remove(after: tail)
  }

  /// Takes linear time in the number of hooks of the object, as does removing by name.
  mutating func remove(identifier: UInt64) -> DeinitHookNode? { removeFirst { $0.identifier == identifier } }
  mutating func remove(name: String) -> DeinitHookNode? { removeFirst { $0.name == name } }

  func contains(identifier: UInt64) -> Bool {
    guard let tail = last?.takeUnretainedValue() else { return false }
    var node = tail
    repeat {
      if node.identifier == identifier { return true }
      node = node.next.unsafelyUnwrapped  // a ring has no end
    } while node !== tail
    return false
  }

  private mutating func removeFirst(where matches: (DeinitHookNode) -> Bool) -> DeinitHookNode? {
    guard let tail = last?.takeUnretainedValue() else { return nil }
    var previous = tail
    repeat {
      let node = previous.next.unsafelyUnwrapped  // a ring has no end
      if matches(node) { return remove(after: previous) }
      previous = node
    } while previous !== tail
    return nil
  }

  private mutating func remove(after previous: DeinitHookNode) -> DeinitHookNode {
    let node = previous.next.unsafelyUnwrapped  // a ring has no end
    if node === previous {
      last = nil
    } else {
      previous.next = node.next
      if let last, last.toOpaque() == Unmanaged.passUnretained(node).toOpaque() { self.last = Unmanaged.passUnretained(previous) }
    }
    node.next = nil
    return Unmanaged.passUnretained(node).takeRetainedValue()
  }
}
