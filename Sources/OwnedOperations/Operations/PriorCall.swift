/// What those who want to hear beforehand are just being told by this thread. A handler may change what it is told of: that is not
/// announced once more, or it would be called for ever, each time inside of the call before.
struct PriorCall {
  private let operation: UnsafeMutableRawPointer
  private let keys: ObservedKeys
  private let outer: UnsafeMutableRawPointer?

  static func with(_ operation: OwnedOperation, _ keys: ObservedKeys, _ body: () -> Void) {
    let outer = ThreadSlot.priorCall.pointer
    withUnsafeTemporaryAllocation(of: PriorCall.self, capacity: 1) { frame in
      frame.initializeElement(at: 0, to: PriorCall(operation: Borrowed(operation).address, keys: keys, outer: outer))
      ThreadSlot.priorCall.pointer = UnsafeMutableRawPointer(frame.baseAddress)
      body()
      ThreadSlot.priorCall.pointer = outer
    }
  }

  /// What of the operation's is being announced.
  static func keys(of operation: OwnedOperation) -> ObservedKeys {
    var keys: ObservedKeys = []
    var next = ThreadSlot.priorCall.pointer
    while let frame = next?.assumingMemoryBound(to: PriorCall.self).pointee {
      if frame.operation == Borrowed(operation).address { keys.formUnion(frame.keys) }
      next = frame.outer
    }
    return keys
  }
}
