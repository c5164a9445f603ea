#if OWNED_OPERATIONS_MODEL
  import COwnedOperations
  import Dispatch
  import Glibc
  import Synchronization

  // What takes the place of the primitives in a model build: declarations of this module shadow imported ones of the same name.

  /// Guards the values of atomics against threads that belong to no run.
  private let valueLock = {
    let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    Glibc.pthread_mutex_init(mutex, nil)
    return UncheckedMutex(mutex: mutex)
  }()

  private struct UncheckedMutex: @unchecked Sendable {  // a pthread object may be used from any thread
    let mutex: UnsafeMutablePointer<pthread_mutex_t>

    func withLock<Result: ~Copyable>(_ body: () -> Result) -> Result {
      Glibc.pthread_mutex_lock(mutex)
      defer { Glibc.pthread_mutex_unlock(mutex) }
      return body()
    }
  }

  /// In the place of `Synchronization.Atomic`. Every operation is a point; orderings are not explored.
  struct Atomic<Value: AtomicRepresentable & BitwiseCopyable>: ~Copyable, @unchecked Sendable {  // see `valueLock`
    private final class Box: @unchecked Sendable {  // see `valueLock`
      let object = ModelObject("atomic")
      var value: Value
      init(_ value: Value) { self.value = value }
    }

    private let box: Box

    init(_ value: Value) { box = Box(value) }

    fileprivate func touch<Result>(
      _ call: StaticString, _ use: ModelRun.Use, _ file: StaticString, _ line: UInt, _ body: (inout Value) -> Result
    ) -> Result {
      ModelRun.point(call, box.object, use, file, line)
      return valueLock.withLock { body(&box.value) }
    }

    func load(ordering: AtomicLoadOrdering, file: StaticString = #fileID, line: UInt = #line) -> Value {
      touch("load", .read, file, line) { $0 }
    }

    func store(_ new: Value, ordering: AtomicStoreOrdering, file: StaticString = #fileID, line: UInt = #line) {
      touch("store", .write, file, line) { $0 = new }
    }

    func exchange(_ new: Value, ordering: AtomicUpdateOrdering, file: StaticString = #fileID, line: UInt = #line) -> Value {
      touch("exchange", .write, file, line) { value in
        defer { value = new }
        return value
      }
    }

    func compareExchange(
      expected: Value, desired: Value, ordering: AtomicUpdateOrdering, file: StaticString = #fileID, line: UInt = #line
    ) -> (exchanged: Bool, original: Value) {
      touch("compareExchange", .write, file, line) { value in
        let original = value
        let isEqual = withUnsafeBytes(of: original) { left in withUnsafeBytes(of: expected) { left.elementsEqual($0) } }
        if isEqual { value = desired }
        return (isEqual, original)
      }
    }

    func compareExchange(
      expected: Value, desired: Value, successOrdering: AtomicUpdateOrdering, failureOrdering: AtomicLoadOrdering,
      file: StaticString = #fileID,
      line: UInt = #line
    ) -> (exchanged: Bool, original: Value) {
      compareExchange(expected: expected, desired: desired, ordering: successOrdering, file: file, line: line)
    }

    func weakCompareExchange(
      expected: Value, desired: Value, ordering: AtomicUpdateOrdering, file: StaticString = #fileID, line: UInt = #line
    ) -> (exchanged: Bool, original: Value) {
      compareExchange(expected: expected, desired: desired, ordering: ordering, file: file, line: line)
    }

    func weakCompareExchange(
      expected: Value, desired: Value, successOrdering: AtomicUpdateOrdering, failureOrdering: AtomicLoadOrdering,
      file: StaticString = #fileID,
      line: UInt = #line
    ) -> (exchanged: Bool, original: Value) {
      compareExchange(expected: expected, desired: desired, ordering: successOrdering, file: file, line: line)
    }
  }

  extension Atomic where Value: FixedWidthInteger {
    private func change(
      _ call: StaticString, _ file: StaticString, _ line: UInt, _ body: (Value) -> Value
    ) -> (oldValue: Value, newValue: Value) {
      touch(call, .write, file, line) { value in
        let old = value
        value = body(old)
        return (old, value)
      }
    }

    @discardableResult
    func add(_ operand: Value, ordering: AtomicUpdateOrdering, file: StaticString = #fileID, line: UInt = #line) -> (
      oldValue: Value, newValue: Value
    ) {
      change("add", file, line) { $0 + operand }
    }
    @discardableResult
    func subtract(_ operand: Value, ordering: AtomicUpdateOrdering, file: StaticString = #fileID, line: UInt = #line) -> (
      oldValue: Value, newValue: Value
    ) { change("subtract", file, line) { $0 - operand } }
    @discardableResult
    func wrappingAdd(_ operand: Value, ordering: AtomicUpdateOrdering, file: StaticString = #fileID, line: UInt = #line) -> (
      oldValue: Value, newValue: Value
    ) { change("add", file, line) { $0 &+ operand } }
    @discardableResult
    func wrappingSubtract(_ operand: Value, ordering: AtomicUpdateOrdering, file: StaticString = #fileID, line: UInt = #line) -> (
      oldValue: Value, newValue: Value
    ) { change("subtract", file, line) { $0 &- operand } }
    @discardableResult
    func bitwiseOr(_ operand: Value, ordering: AtomicUpdateOrdering, file: StaticString = #fileID, line: UInt = #line) -> (
      oldValue: Value, newValue: Value
    ) { change("or", file, line) { $0 | operand } }
    @discardableResult
    func bitwiseAnd(_ operand: Value, ordering: AtomicUpdateOrdering, file: StaticString = #fileID, line: UInt = #line) -> (
      oldValue: Value, newValue: Value
    ) { change("and", file, line) { $0 & operand } }
    @discardableResult
    func max(_ operand: Value, ordering: AtomicUpdateOrdering, file: StaticString = #fileID, line: UInt = #line) -> (
      oldValue: Value, newValue: Value
    ) {
      change("max", file, line) { Swift.max($0, operand) }
    }
    @discardableResult
    func min(_ operand: Value, ordering: AtomicUpdateOrdering, file: StaticString = #fileID, line: UInt = #line) -> (
      oldValue: Value, newValue: Value
    ) {
      change("min", file, line) { Swift.min($0, operand) }
    }
  }

  extension Atomic where Value == Bool {
    @discardableResult
    func logicalOr(_ operand: Bool, ordering: AtomicUpdateOrdering, file: StaticString = #fileID, line: UInt = #line) -> (
      oldValue: Bool, newValue: Bool
    ) {
      touch("or", .write, file, line) { value in
        let old = value
        value = old || operand
        return (old, value)
      }
    }
  }

  /// In the place of the lock of a release build.
  struct Lock: ~Copyable, @unchecked Sendable {  // see `valueLock`
    private final class Box: @unchecked Sendable {  // see `valueLock`
      let object = ModelObject("lock")
      var isHeld = false
    }

    private let box = Box()

    init(seed: UInt64 = 0) {}

    private func take() -> Bool {
      valueLock.withLock {
        guard !box.isHeld else { return false }
        box.isHeld = true
        return true
      }
    }

    func lock(file: StaticString = #fileID, line: UInt = #line) {
      guard let run = ModelRun.current, let thread = ModelRun.thread else {
        while !take() { Glibc.usleep(100) }
        return
      }
      ModelRun.point("lock", box.object, .attempt, file, line)
      let box = box
      while !take() { run.block(thread, on: box.object, "lock") { !box.isHeld } }
      ModelRun.note(box.object)
    }

    func tryLock(file: StaticString = #fileID, line: UInt = #line) -> Bool {
      guard let run = ModelRun.current, let thread = ModelRun.thread else { return take() }
      ModelRun.point("tryLock", box.object, .attempt, file, line)
      let isTaken = take()
      run.note(thread, box.object, isRead: !isTaken)
      return isTaken
    }

    var remains: (AnyObject & Sendable)? { box }

    /// Nobody who waits is told apart here.
    var isAwaited: Bool { false }

    func unlock() {
      valueLock.withLock { box.isHeld = false }
      if ModelRun.thread != nil { ModelRun.current?.wakeAll(on: box.object) }
    }

    func withLock<Result: ~Copyable, Failure: Error>(
      file: StaticString = #fileID, line: UInt = #line, _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
      lock(file: file, line: line)
      defer { unlock() }
      return try body()
    }
  }

  /// In the place of Dispatch's.
  final class DispatchSemaphore: @unchecked Sendable {  // see `valueLock`
    private let object = ModelObject("semaphore")
    private let real: Dispatch.DispatchSemaphore
    private var value: Int

    init(value: Int) {
      self.value = value
      real = Dispatch.DispatchSemaphore(value: 0)
    }

    @discardableResult
    func signal(file: StaticString = #fileID, line: UInt = #line) -> Int {
      ModelRun.point("signal", object, .write, file, line)
      valueLock.withLock { value += 1 }
      if ModelRun.thread != nil { ModelRun.current?.wakeAll(on: object) }
      real.signal()
      return 0
    }

    func wait(file: StaticString = #fileID, line: UInt = #line) { _ = wait(isTimed: false, timeout: .distantFuture, file, line) }

    /// - Parameter timeout: of `Uptime`'s clock.
    func wait(timeout: DispatchTime, file: StaticString = #fileID, line: UInt = #line) -> DispatchTimeoutResult {
      wait(isTimed: true, timeout: timeout, file, line)
    }

    private func wait(isTimed: Bool, timeout: DispatchTime, _ file: StaticString, _ line: UInt) -> DispatchTimeoutResult {
      guard let run = ModelRun.current, let thread = ModelRun.thread else { return waitOutside(timeout) }
      ModelRun.point("wait", object, .attempt, file, line)
      let deadline = isTimed ? timeout.uptimeNanoseconds : nil
      let isSignalled = run.block(thread, on: object, "wait", noLongerThan: deadline, until: { self.value > 0 })
      ModelRun.note(object)
      guard isSignalled else { return .timedOut }
      value -= 1
      return .success
    }

    private func waitOutside(_ timeout: DispatchTime) -> DispatchTimeoutResult {
      while true {
        let isTaken = valueLock.withLock {
          if value > 0 { value -= 1 } else { return false }
          return true
        }
        if isTaken { return .success }
        if real.wait(timeout: timeout) == .timedOut { return .timedOut }
      }
    }
  }

  /// In the place of the timer of a normal build. Timers of no run are none.
  ///
  /// The handler runs on a thread of the run's, once for each time that was set and came.
  struct UptimeTimer: Sendable {
    private final class State: @unchecked Sendable {  // the baton holder's
      var handler: (@Sendable () -> Void)?
      var time: UInt64?
      var isActive = false
      var thread: ModelThread?
    }

    private let queue: DispatchQueue
    private let state = State()

    init(on queue: DispatchQueue) { self.queue = queue }

    func setHandler(qos: DispatchQoS = .unspecified, flags: DispatchWorkItemFlags = [], _ handler: @escaping @Sendable () -> Void) {
      state.handler = handler
    }

    func set(_ time: DispatchTime, leeway: DispatchTimeInterval = .nanoseconds(0)) {
      state.time = time == .distantFuture ? nil : time.uptimeNanoseconds
      start()
    }

    func activate() {
      state.isActive = true
      start()
    }

    private func start() {
      if let thread = state.thread { ModelRun.cancel(thread) }
      guard state.isActive, state.handler != nil, let time = state.time else { return }
      state.thread = ModelRun.start({ [state] in state.handler?() }, at: time, on: queue)
    }

    func cancel() {
      if let thread = state.thread { ModelRun.cancel(thread) }
      (state.handler, state.thread) = (nil, nil)
    }
  }

  // MARK: The C library's, with its very types: others would not take its place

  final class ModelMutex {
    fileprivate let object = ModelObject("mutex")
    fileprivate var isHeld = false
  }

  final class ModelCondition {
    fileprivate final class Wait {
      var isOver = false
    }

    fileprivate let object = ModelObject("condition")
    fileprivate var waits: [Wait] = []
  }

  // swift-format-ignore: AlwaysUseLowerCamelCase
  @discardableResult
  func pthread_mutex_init(_ mutex: UnsafeMutablePointer<pthread_mutex_t>, _ attributes: UnsafePointer<pthread_mutexattr_t>!) -> Int32 {
    if ModelRun.thread != nil { _ = ModelRun.current?.mutex(at: mutex, isNew: true) }
    return Glibc.pthread_mutex_init(mutex, attributes)
  }

  // swift-format-ignore: AlwaysUseLowerCamelCase
  @discardableResult
  func pthread_cond_init(_ condition: UnsafeMutablePointer<pthread_cond_t>, _ attributes: UnsafePointer<pthread_condattr_t>!) -> Int32 {
    if ModelRun.thread != nil { _ = ModelRun.current?.condition(at: condition, isNew: true) }
    return Glibc.pthread_cond_init(condition, attributes)
  }

  // swift-format-ignore: AlwaysUseLowerCamelCase
  @discardableResult
  func pthread_mutex_lock(_ mutex: UnsafeMutablePointer<pthread_mutex_t>) -> Int32 {
    guard let run = ModelRun.current, let thread = ModelRun.thread else { return Glibc.pthread_mutex_lock(mutex) }
    let model = run.mutex(at: mutex)
    ModelRun.point("lock", model.object, .attempt, #fileID, #line)
    run.block(thread, on: model.object, "lock") { !model.isHeld }
    model.isHeld = true
    ModelRun.note(model.object)
    return 0
  }

  // swift-format-ignore: AlwaysUseLowerCamelCase
  @discardableResult
  func pthread_mutex_unlock(_ mutex: UnsafeMutablePointer<pthread_mutex_t>) -> Int32 {
    guard let run = ModelRun.current, ModelRun.thread != nil else { return Glibc.pthread_mutex_unlock(mutex) }
    let model = run.mutex(at: mutex)
    model.isHeld = false
    run.wakeAll(on: model.object)
    return 0
  }

  /// Nobody is woken without a signal.
  // swift-format-ignore: AlwaysUseLowerCamelCase
  @discardableResult
  func pthread_cond_wait(_ condition: UnsafeMutablePointer<pthread_cond_t>, _ mutex: UnsafeMutablePointer<pthread_mutex_t>) -> Int32 {
    guard let run = ModelRun.current, let thread = ModelRun.thread else { return Glibc.pthread_cond_wait(condition, mutex) }
    let model = run.condition(at: condition)
    let wait = ModelCondition.Wait()
    model.waits.append(wait)
    ModelRun.note(model.object)
    pthread_mutex_unlock(mutex)
    run.block(thread, on: model.object, "condition") { wait.isOver }
    return pthread_mutex_lock(mutex)
  }

  // swift-format-ignore: AlwaysUseLowerCamelCase
  @discardableResult
  func pthread_cond_signal(_ condition: UnsafeMutablePointer<pthread_cond_t>) -> Int32 {
    guard let run = ModelRun.current, ModelRun.thread != nil else { return Glibc.pthread_cond_signal(condition) }
    let model = run.condition(at: condition)
    if !model.waits.isEmpty { model.waits.removeFirst().isOver = true }
    ModelRun.note(model.object)
    run.wakeAll(on: model.object)
    return 0
  }

  // swift-format-ignore: AlwaysUseLowerCamelCase
  @discardableResult
  func pthread_cond_broadcast(_ condition: UnsafeMutablePointer<pthread_cond_t>) -> Int32 {
    guard let run = ModelRun.current, ModelRun.thread != nil else { return Glibc.pthread_cond_broadcast(condition) }
    let model = run.condition(at: condition)
    for wait in model.waits { wait.isOver = true }
    ModelRun.note(model.object)
    model.waits = []
    run.wakeAll(on: model.object)
    return 0
  }

  /// A thread made by one of a run belongs to the run. The attributes don't matter then.
  // swift-format-ignore: AlwaysUseLowerCamelCase
  func pthread_create(
    _ thread: UnsafeMutablePointer<pthread_t>, _ attributes: UnsafePointer<pthread_attr_t>?,
    _ start: @escaping @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer?, _ argument: UnsafeMutableRawPointer?
  ) -> Int32 {
    guard let run = ModelRun.current, let maker = ModelRun.thread else { return Glibc.pthread_create(thread, attributes, start, argument) }
    nonisolated(unsafe) let argument = argument
    run.add("\(maker.name)'s", isPartOfScenario: false) { _ = start(argument) }
    return 0
  }

  // swift-format-ignore: AlwaysUseLowerCamelCase
  @discardableResult
  func sched_yield() -> Int32 {
    ModelRun.pass(#fileID, #line)
    return 0
  }

  @discardableResult
  func usleep(_ microseconds: UInt32) -> Int32 {
    guard let run = ModelRun.current, let thread = ModelRun.thread else { return Glibc.usleep(microseconds) }
    run.sleep(thread, until: ModelRun.now + UInt64(microseconds) * 1000)
    return 0
  }

  /// Passing a little time while another thread is about to do something.
  enum Pause {
    /// A controlled thread goes on when it is its turn: to look again shows it nothing new.
    static let passesTime = false

    static func spin(_ rounds: Int) { ModelRun.pass(#fileID, #line) }

    /// `spin`, which comes with it, does.
    static func giveWay() {}
  }
#endif
