/// Knows which operations this thread is inside of: running their work. A wait for one of them could never end.
enum OperationThread {
  enum Purpose {
    case work
    /// Asking `isReady`, which a subclass may override, for a start by hand.
    case question
  }

  private struct Frame {
    let operation: Borrowed<OwnedOperation>
    let outer: UnsafeMutableRawPointer?
    let purpose: Purpose

    func concerns(_ other: OwnedOperation) -> Bool { operation.address == Borrowed(other).address }
  }

  static func run<Result>(inside operation: OwnedOperation, for purpose: Purpose = .work, _ body: () -> Result) -> Result {
    let outer = ThreadSlot.operation.pointer
    var frame = Frame(operation: Borrowed(operation), outer: outer, purpose: purpose)
    return withUnsafeMutablePointer(to: &frame) { pointer in
      ThreadSlot.operation.pointer = UnsafeMutableRawPointer(pointer)
      defer { ThreadSlot.operation.pointer = outer }
      return body()
    }
  }

  /// The operations whose work this thread runs: one may have started another by hand. All of them wait when it waits.
  static var operationsInside: [OwnedOperation] {
    var operations: [OwnedOperation] = []
    var next = ThreadSlot.operation.pointer
    while let pointer = next {
      let frame = pointer.load(as: Frame.self)
      if case .work = frame.purpose { operations.append(frame.operation.object) }
      next = frame.outer
    }
    return operations
  }

  /// Whether this thread is just asking the operation `isReady`, for a start.
  static func isAsking(_ operation: OwnedOperation) -> Bool {
    guard let frame = ThreadSlot.operation.pointer?.load(as: Frame.self), case .question = frame.purpose else { return false }
    return frame.concerns(operation)
  }

  static func isInside(_ operation: OwnedOperation) -> Bool {
    var next = ThreadSlot.operation.pointer
    while let pointer = next {
      let frame = pointer.load(as: Frame.self)
      if case .question = frame.purpose {} else if frame.concerns(operation) { return true }
      next = frame.outer
    }
    return false
  }
}
