#if canImport(ObjectiveC)
  import ObjectiveC

  /// Associated with an object that carries something; released with it, and tells.
  private final class EndSentinel {
    let object: UnsafeMutableRawPointer

    init(_ object: UnsafeMutableRawPointer) { self.object = object }
    deinit { DeinitRegistry.shared.objectDeinitialises(object) }
  }

  private nonisolated(unsafe) var sentinelKey: UInt8 = 0  // only its address is used

  extension DeinitRegistry {
    /// Makes sure that the registry hears of the object's end. An association made twice by two threads at once would end the first
    /// sentinel while the object lives, hence the monitor of the object.
    func prepare(_ object: AnyObject) -> Bool {
      objc_sync_enter(object)
      defer { objc_sync_exit(object) }
      if objc_getAssociatedObject(object, &sentinelKey) == nil {
        let sentinel = EndSentinel(Borrowed(object).address)
        objc_setAssociatedObject(object, &sentinelKey, sentinel, .OBJC_ASSOCIATION_RETAIN)
      }
      return true
    }

    /// The Objective-C runtime does not say. What is associated with a deinitialising object is released at the end of its deallocation. So
    /// a hook that is installed from a deinit body runs a moment later.
    static func isDeinitialising(_ object: AnyObject) -> Bool { false }
  }

  extension DeinitHookMechanism {
    static func detect() -> DeinitHookMechanism { .associatedObject }
  }
#endif
