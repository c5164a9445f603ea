/// State that many threads read and few write.
///
/// ```swift
/// let prices = Protected(["apple": 30])
/// let price = prices.read { $0["apple"] }
/// prices.write { $0["pear"] = 40 }
/// print(price ?? 0, prices.read { $0.count })
/// ```
///
/// Readers run at the same time. A writer runs alone: it waits for the readers that are inside, and later readers wait for it. The calls
/// are synchronous, run their bodies on this thread, return what these return and throw what these throw.
/// The guide <doc:WhichLock> has the figures that tell when to take something else.
///
/// Unlike any other code of the user's that this package calls, the bodies run while something is held: that is what they are for. Keep
/// them short, and wait for nothing in them. What a body takes out of the state and drops is released inside the body. Where that may run
/// code that comes back here, return it from the body, or use ``replace(with:file:line:)``. A state that is itself an object (of a class,
/// an `AnyObject`, or an optional one) is released outside in any case.
public final class Protected<State>: Sendable {
  // Protocol
  //
  // - `state` is read between `beginRead` and `endRead` of `lock`, and written between `beginWrite` and `endWrite`, by bodies that don't
  //   let it out.
  // - A body is on one thread from its begin to its end. Each thread keeps a stack of what it is inside of (`ProtectedUse`).
  // - A call looks through that before it takes the lock. If it finds this object, that is a precondition failure, which names both calls.
  // - A read inside of a read is a precondition failure, too. A writer that comes in between would wait for the outer read, and the inner
  //   read for the writer.
  // - Uses of different objects may be nested. As with all locks, the caller must nest them in the same order everywhere.
  // - `writeLater` takes the same hold as `write`, inside a job of a serial queue, or a barrier of any other. Between two of them the queue
  //   keeps the order; with other calls the lock does.
  // - `state` goes with the object. By then nobody uses it, since each call holds the object.

  private let state = RawStorage<State>(capacity: 1)
  let lock = ReadWriteLock()
  let lateWrites = LazyObject()
  /// Whether the state is one reference. Then the former one is kept through a write, which costs next to nothing. Of a collection that
  /// would make a copy.
  private let isReference: Bool

  /// Makes protected state. What is not Sendable is given up by the caller, and can be reached in ``write(file:line:_:)`` only.
  public init(_ state: consuming sending State) {
    self.state.start.initialize(to: state)
    // `AnyObject` is no class by itself, though all that it holds is a reference.
    let isAnyObject = State.self == AnyObject.self || State.self == AnyObject?.self
    let isObject = isAnyObject || State.self is AnyClass || State.self is any OptionalReference.Type
    isReference = isObject && MemoryLayout<State>.size == MemoryLayout<AnyObject>.size
  }

  deinit { state.start.deinitialize(count: 1) }

  /// Calls the body with the state, which it may change, while nobody else reads or writes.
  ///
  /// Inside a body of the same object any further call is a precondition failure.
  /// - Returns: what the body returns.
  /// - Throws: what the body throws. What it has changed by then stays changed.
  @discardableResult
  public func write<Result, Failure: Error>(
    file: StaticString = #fileID, line: UInt = #line, _ body: (inout sending State) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result {
    try alone(by: "write", file, line, body)
  }

  /// Reads and writes in one hold: nobody else comes between what the body reads and what it writes.
  ///
  /// ```swift
  /// let stock = Protected(["apple": 3])
  /// let isSold = stock.withState { stock in
  ///   guard let count = stock["apple"], count > 0 else { return false }
  ///   stock["apple"] = count - 1
  ///   return true
  /// }
  /// print(isSold)
  /// ```
  ///
  /// Inside a body of the same object any further call is a precondition failure.
  /// - Returns: what the body returns.
  /// - Throws: what the body throws. What it has changed by then stays changed.
  @discardableResult
  public func withState<Result, Failure: Error>(
    file: StaticString = #fileID, line: UInt = #line, _ body: (inout sending State) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result {
    try alone(by: "withState", file, line, body)
  }

  @inline(__always)  // for each use
  private func alone<Result, Failure: Error>(
    by call: StaticString, _ file: StaticString, _ line: UInt, _ body: (inout sending State) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result {
    ProtectedUse.enter(self, by: call, file, line)
    lock.beginWrite()
    let former = formerReference
    defer {
      lock.endWrite()
      ProtectedUse.leave()
      withExtendedLifetime(former) {}
    }
    return try body(&state[0])
  }

  /// Inside a write, before its body. The state's only word, if it is one reference: of any other this would be a piece.
  private var formerReference: AnyObject? { isReference ? UnsafeRawPointer(state.start).load(as: AnyObject?.self) : nil }

  /// Puts a new state in the place of the old one, which goes to the caller: it is not released while anybody waits.
  @discardableResult
  public func replace(with new: consuming sending State, file: StaticString = #fileID, line: UInt = #line) -> sending State {
    ProtectedUse.enter(self, by: "replace", file, line)
    // The old state leaves the hold, and nobody else has it. The new one was given up by the caller.
    nonisolated(unsafe) var exchanged = consume new
    lock.beginWrite()
    swap(&exchanged, &state[0])
    lock.endWrite()
    ProtectedUse.leave()
    return exchanged
  }
}

private protocol OptionalReference {}
extension Optional: OptionalReference where Wrapped: AnyObject {}

extension Protected where State: Sendable {
  /// Calls the body with the state, at the same time as other readers, while nobody writes.
  ///
  /// Inside a body of the same object any further call, also of `read`, is a precondition failure. If a writer waited in between, both
  /// would wait for ever.
  /// - Returns: what the body returns.
  /// - Throws: what the body throws.
  public func read<Result, Failure: Error>(
    file: StaticString = #fileID, line: UInt = #line, _ body: (State) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    ProtectedUse.enter(self, by: "read", file, line)
    let shard = lock.beginRead()
    defer {
      lock.endRead(shard)
      ProtectedUse.leave()
    }
    return try Self.lend(UnsafePointer(state.start), to: body)
  }

  /// Looks as a reader, and writes only if there is something to write: the form for what is filled when it is first asked for.
  ///
  /// ```swift
  /// let squares = Protected<[Int: Int]>([:])
  /// let square = squares.withState(read: { $0[7] }, orWrite: { $0[7] = 49; return 49 })
  /// print(square)
  /// ```
  ///
  /// Somebody may have written between the two, so `look` is called once more, as a writer, before `change` is.
  /// - Parameters:
  ///   - file: of the call, for messages. Leave it out.
  ///   - line: of the call, for messages. Leave it out.
  ///   - look: returns nil if there is something to write. Called once or twice.
  ///   - change: called at most once, alone.
  /// - Returns: what `look` returns, or else what `change` does.
  @discardableResult
  public func withState<Result, Failure: Error>(
    file: StaticString = #fileID, line: UInt = #line, read look: (State) throws(Failure) -> Result?,
    orWrite change: (inout State) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    if let found = try read(file: file, line: line, look) { return found }
    ProtectedUse.enter(self, by: "withState", file, line)
    lock.beginWrite()
    let former = formerReference
    defer {
      lock.endWrite()
      ProtectedUse.leave()
      withExtendedLifetime(former) {}
    }
    if let found = try look(state[0]) { return found }
    return try change(&state[0])
  }

  /// Without a copy, whose reference would be counted in one place by all readers: what can't be copied is borrowed.
  @inline(__always)  // for each use
  private static func lend<Value: ~Copyable, Result, Failure: Error>(
    _ place: UnsafePointer<Value>, to body: (borrowing Value) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try body(place.pointee)
  }
}

/// An object that is made when it is first asked for, by somebody in a room above. Always of one class.
final class LazyObject: Sendable {
  private let known = Locked<AnyObject?>(nil)

  func made<Object: AnyObject>(_ type: Object.Type) -> Object? { known.withLock { $0 } as? Object }

  func object<Object: AnyObject>(_ make: () -> Object) -> Object {
    if let known = made(Object.self) { return known }
    let new = make()
    let first = known.withLock { known in
      let first = Mutation.lazyObjectIsMadeTwice.isOn ? new : known ?? new
      known = first
      return first
    }
    return first as? Object ?? new
  }
}
