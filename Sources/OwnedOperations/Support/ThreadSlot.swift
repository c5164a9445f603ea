import COwnedOperations

/// What a thread is inside of: a pointer for each purpose, nil at first. Whoever sets one puts back what was there before when it is done.
enum ThreadSlot: Int32 {
  /// A `Worker`.
  case worker
  /// An `OwnerScopedQueue`.
  case queue
  /// A `BlockingObserver`.
  case blockingObserver
  /// See `OperationThread`.
  case operation
  /// The `OwnerBodyFrame` of the body that runs.
  case ownerBody
  case hookRun
  case chainRelease
  /// The `WorkerThreads` whose due workers the thread is looking for.
  case lookingFor
  /// See `AdaptiveSpin`.
  case waits
  /// See `OwnTaskStep`.
  case taskStep
  /// See `CancellationHandler`.
  case cancellationHandler
  case parking
  case endingObject
  case priorCall
  /// The `ModelThread` of a run of the model checker.
  case modelThread

  @inline(__always)  // one load or store by way of the thread register
  var pointer: UnsafeMutableRawPointer? {
    get { coo_thread_slot(rawValue) }
    nonmutating set { coo_set_thread_slot(rawValue, newValue) }
  }

  /// The object that was put there.
  @inline(__always)  // one load or store by way of the thread register
  func object<Object: AnyObject>(_ type: Object.Type) -> Object? {
    pointer.map { Unmanaged<Object>.fromOpaque($0).takeUnretainedValue() }
  }

  /// Runs the body with the object in the slot. The caller keeps the object.
  @inline(__always)  // one load or store by way of the thread register
  func with<Result>(_ object: AnyObject, _ body: () throws -> Result) rethrows -> Result {
    let outer = pointer
    pointer = Unmanaged.passUnretained(object).toOpaque()
    defer { pointer = outer }
    return try body()
  }
}
