/// The objects whose deinit hooks this thread is running, the innermost first.
struct EndingObject {
  private let address: UnsafeMutableRawPointer
  private let outer: UnsafeMutableRawPointer?

  static func with(_ object: UnsafeMutableRawPointer, _ body: () -> Void) {
    let outer = ThreadSlot.endingObject.pointer
    withUnsafeTemporaryAllocation(of: EndingObject.self, capacity: 1) { frame in
      frame.initializeElement(at: 0, to: EndingObject(address: object, outer: outer))
      ThreadSlot.endingObject.pointer = UnsafeMutableRawPointer(frame.baseAddress)
      body()
      ThreadSlot.endingObject.pointer = outer
    }
  }

  /// Whether this thread is inside of a hook on the deinit of what is there. What comes after the hooks waits for this thread.
  static func isEndedByThisThread(_ object: UnsafeMutableRawPointer) -> Bool {
    var next = ThreadSlot.endingObject.pointer
    while let frame = next?.assumingMemoryBound(to: EndingObject.self).pointee {
      if frame.address == object { return true }
      next = frame.outer
    }
    return false
  }
}
