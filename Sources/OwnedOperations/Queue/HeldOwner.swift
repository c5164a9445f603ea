#if !canImport(ObjectiveC)
  import CDeinitHook
#endif

/// The owner whose jobs a worker is running one after the other.
///
/// A job's owner is held strongly while the job runs. To take a reference for each job and to let go of it afterwards would write to the owner's count twice a
/// job, in a cache line that those who add jobs read. So the reference taken for one job is kept for the next one of the same owner, if somebody else
/// holds the owner by then: that costs a look at the count. If nobody else does, the reference is let go of before the next job
/// starts, and the owner ends there, as it would have without us.
struct HeldOwner: ~Copyable {
  #if canImport(ObjectiveC)
    private var object: AnyObject?

    /// The owner of the slot's work, unless it has gone. Valid until the next call.
    mutating func object(of slot: OwnerSlot) -> Unmanaged<AnyObject>? {
      object = nil
      guard let lifetime = slot.lifetime, lifetime.isAlive else { return nil }
      object = lifetime.boundOwnerObject
      return object.map(Unmanaged.passUnretained)
    }

    mutating func letGo() { object = nil }
  #else
    private var lifetime: UnsafeMutableRawPointer?
    private var object: UnsafeMutableRawPointer?

    deinit {
      if let object { Unmanaged<AnyObject>.fromOpaque(object).release() }
    }

    /// The owner of the slot's work, unless it has gone. Valid until the next call.
    @inline(__always)
    mutating func object(of slot: OwnerSlot) -> Unmanaged<AnyObject>? {
      guard let lifetime = slot.unretainedLifetime else { return nil }
      if lifetime.toOpaque() != self.lifetime || object.map(cdh_is_uniquely_referenced) ?? true {
        letGo()
        take(lifetime)
      }
      // Asked for each job, and last: a lifetime may also be ended by hand.
      guard let object, lifetime._withUnsafeGuaranteedRef({ $0.isAlive }) else { return nil }
      return Unmanaged.fromOpaque(object)
    }

    private mutating func take(_ lifetime: Unmanaged<OwnerLifetime>) {
      self.lifetime = lifetime.toOpaque()
      object = lifetime._withUnsafeGuaranteedRef { $0.isAlive ? $0.boundOwnerObject : nil }.map { Unmanaged.passRetained($0).toOpaque() }
    }

    /// Before anything that isn't a job of this owner.
    @inline(__always)
    mutating func letGo() {
      guard let object else { return }
      self.object = nil
      Unmanaged<AnyObject>.fromOpaque(object).release()
    }
  #endif
}
