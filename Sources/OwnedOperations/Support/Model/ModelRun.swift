#if OWNED_OPERATIONS_MODEL
  import Dispatch
  import Glibc
  import Synchronization

  /// One run of a scenario under the model checker: real threads, of which one runs at a time.
  ///
  /// ## Protocol
  ///
  /// - The thread that has the baton runs. All others wait, each for its own semaphore. So everything here is the baton holder's, without a
  ///   lock.
  /// - Each call of a swapped primitive is a point. There the strategy says who goes on, and the baton goes to that thread.
  /// - A thread that can't go on is blocked on an object. Who changes the object makes those that are blocked on it ready; each looks
  ///   again.
  /// - A run is a list of decisions. The same decisions give the same run, as long as the code under test asks neither the clock nor
  ///   addresses.
  /// - Time stands still while anybody can run. When nobody can, the wait with the earliest limit is over, and its limit is the time. That
  ///   holds in scenarios that allow it, or once their threads are over.
  /// - Some scenarios allow so many early ends of such waits, too, each at any point: a timer that fires meets what it may meet.
  /// - A run that fails is given up: its threads stay where they are, for ever.
  ///
  /// Sequentially consistent: orders of memory are not explored.
  final class ModelRun: @unchecked Sendable {  // see the protocol
    enum Failure: Error, CustomStringConvertible {
      case deadlock([String])
      case livelock(Int)
      case expectation(String)
      case blockedOutside
      case crash(signal: Int32, thread: String)

      var description: String {
        switch self {
        case .deadlock(let threads): "nobody can go on: " + threads.joined(separator: "; ")
        case .livelock(let steps): "no end after \(steps) steps"
        case .expectation(let text): text
        case .blockedOutside: "blocked in something that the model does not know"
        case .crash(let signal, let thread): "signal \(signal), as where memory is used after its release: \(thread)"
        }
      }
    }

    /// The run under way. One at a time in a process.
    nonisolated(unsafe) static var current: ModelRun?  // written while no other thread of a run exists

    /// Beyond that many it is a livelock.
    nonisolated(unsafe) static var mostSteps = 20_000  // as `current`
    /// Tells objects that outlive a run that another has begun.
    nonisolated(unsafe) static var runCount = 0  // as `current`

    let strategy: any ModelStrategy
    private let timePasses: Bool
    /// How many waits with a limit may still end while others can go on.
    private(set) var earlyTimeouts: Int
    /// Whether points of threads that the library makes are decisions.
    private let exploresBackground: Bool
    private(set) var threads: [ModelThread] = []
    private(set) var failure: Failure?
    private(set) var stepCount = 0
    private(set) var trace: [String]?
    /// Hears of each point, for counts. Set before the run.
    var listener: ((_ thread: Int, _ call: StaticString, _ object: ModelObject, _ use: Use) -> Void)?
    /// Whether what the library does without haste waits for its timers, as in any other build.
    var gathers = false
    /// Whether an end is told at once, where it can be, and not left to the reaper.
    var tellsAtOnce = false
    /// Whether queues look for ends that somebody waits for: see `EndWatch`.
    var watchesEnds = false
    private let isOver = Dispatch.DispatchSemaphore(value: 0)
    /// Whether points are decisions. Not while a scenario is set up, nor when its threads are over.
    private var branches = false
    private var waitCount = 0
    private var lastOnQueue: [ObjectIdentifier: ModelThread] = [:]
    private var mutexes: [UnsafeMutableRawPointer: ModelMutex] = [:]
    private var conditions: [UnsafeMutableRawPointer: ModelCondition] = [:]
    /// In nanoseconds.
    private(set) var clock: UInt64 = 1_000_000_000

    init(_ strategy: any ModelStrategy, timePasses: Bool, earlyTimeouts: Int, exploresBackground: Bool, isTraced: Bool) {
      self.strategy = strategy
      self.timePasses = timePasses
      self.earlyTimeouts = earlyTimeouts
      self.exploresBackground = exploresBackground
      trace = isTraced ? [] : nil
    }

    /// Runs the body, and all threads that come of it, to their end. Once.
    func run(_ body: @escaping @Sendable (ModelRun) -> Void) {
      ModelCrash.beginRun()
      Self.current = self
      Self.runCount += 1
      add("main", isPartOfScenario: true) { body(self) }
      threads[0].baton.signal()
      var lastStep = -1
      while isOver.wait(timeout: .now() + 20) == .timedOut {
        // A look without the baton, at a number that only grows.
        if stepCount == lastStep {
          failure = .blockedOutside
          break
        }
        lastStep = stepCount
      }
      Self.current = nil
    }

    /// Of the calling thread: it belongs to a run in which nothing waits that is done without haste.
    static var hasHaste: Bool { thread != nil && current?.gathers == false }

    static var leavesEndsToTheReaper: Bool { current?.tellsAtOnce != true }

    static var leavesEndsUnwatched: Bool { current?.watchesEnds != true }

    // MARK: For scenarios

    /// In nanoseconds. No wait's time is up because of it as long as anybody can go on.
    func letPass(_ time: UInt64) { clock += time }

    /// Runs the bodies on threads of their own, and returns when they are over. In between, every point is a decision.
    func concurrently(_ bodies: (name: String, body: @Sendable () -> Void)...) { concurrently(bodies) }

    func concurrently(_ bodies: [(name: String, body: @Sendable () -> Void)]) {
      let members = bodies.map { add($0.name, isPartOfScenario: true, $0.body) }
      let me = Self.thread!  // the scenario's main thread
      branches = true
      block(me, on: nil, "join") { members.allSatisfy { $0.isFinished } }
      branches = false
    }

    func expect(_ condition: Bool, _ text: @autoclosure () -> String, file: StaticString = #fileID, line: UInt = #line) {
      if !condition { fail(.expectation("\(text()) (\(file):\(line))")) }
    }

    // MARK: Threads

    /// The thread of a run that calls; nil outside of runs.
    static var thread: ModelThread? {
      ThreadSlot.modelThread.object(ModelThread.self)
    }

    /// - Parameter deadline: when it begins; nil if at once.
    @discardableResult
    func add(
      _ name: String, isPartOfScenario: Bool, isWorker: Bool = false, at deadline: UInt64? = nil, _ body: @escaping @Sendable () -> Void
    ) -> ModelThread {
      let isExplored = isPartOfScenario || isWorker || exploresBackground
      let thread = ModelThread(
        number: threads.count, name: name, isPartOfScenario: isPartOfScenario, isExplored: isExplored, body)
      threads.append(thread)
      if let maker = Self.thread { thread.past = ModelHash.of(maker.past, UInt64(thread.number)) }
      strategy.didAdd(thread.number)
      if let deadline { thread.wait(until: deadline, since: nextWait()) } else { launch(thread) }
      return thread
    }

    private func launch(_ thread: ModelThread) {
      ModelThread.start {
        thread.baton.wait()
        ThreadSlot.modelThread.pointer = Unmanaged.passUnretained(thread).toOpaque()
        thread.runBody()
        ThreadSlot.modelThread.pointer = nil
        self.finish(thread)
      }
    }

    private func nextWait() -> Int {
      waitCount += 1
      return waitCount
    }

    // MARK: Threads of the library's

    /// - Returns: false if the caller belongs to no run.
    static func start(_ body: @escaping @Sendable () -> Void) -> Bool {
      guard let current, let thread else { return false }
      current.add("\(thread.name)'s", isPartOfScenario: false, body)
      return true
    }

    /// Blocks of one queue run one after the other.
    static func start(_ body: @escaping @Sendable () -> Void, on queue: DispatchQueue) -> Bool {
      guard let current, thread != nil else { return false }
      let former = current.lastOnQueue[ObjectIdentifier(queue)]
      let new = current.add("worker", isPartOfScenario: false, isWorker: true) {
        if let former, let me = Self.thread { current.block(me, on: nil, "queue") { former.isFinished } }
        body()
      }
      if let former { new.past = ModelHash.of(new.past, UInt64(former.number)) }
      current.lastOnQueue[ObjectIdentifier(queue)] = new
      return true
    }

    /// When so much time has passed. Blocks of one queue run one after the other.
    /// - Returns: nil if the caller belongs to no run.
    @discardableResult
    static func start(_ body: @escaping @Sendable () -> Void, at deadline: UInt64, on queue: DispatchQueue) -> ModelThread? {
      guard let current, let thread else { return nil }
      return current.add("\(thread.name)'s timer", isPartOfScenario: false, isWorker: current.earlyTimeouts > 0, at: deadline) {
        guard let me = Self.thread else { return }
        let former = current.lastOnQueue[ObjectIdentifier(queue)]
        current.lastOnQueue[ObjectIdentifier(queue)] = me
        if let former { current.block(me, on: nil, "queue") { former.isFinished } }
        body()
      }
    }

    /// What waits to begin never does.
    static func cancel(_ thread: ModelThread) {
      if thread.isTimed, !thread.isLaunched { thread.cancel() }
    }

    /// What the clock shows: it goes on when nobody can, and when a wait ends early.
    static var now: UInt64 { current?.clock ?? 0 }

    // MARK: Mutexes and conditions, known by their addresses

    func mutex(at address: UnsafeMutableRawPointer, isNew: Bool = false) -> ModelMutex {
      if !isNew, let known = mutexes[address] { return known }
      let new = ModelMutex()
      mutexes[address] = new
      return new
    }

    func condition(at address: UnsafeMutableRawPointer, isNew: Bool = false) -> ModelCondition {
      if !isNew, let known = conditions[address] { return known }
      let new = ModelCondition()
      conditions[address] = new
      return new
    }

    private func finish(_ thread: ModelThread) {
      thread.state = .finished
      wakeAll(on: nil)
      if let next = next(after: thread, "end") {
        next.baton.signal()
      } else if failure == nil {
        isOver.signal()
      }
    }

    // MARK: Points

    /// The thread is about to touch the object.
    static func point(_ call: StaticString, _ object: ModelObject, _ use: Use, _ file: StaticString, _ line: UInt) {
      guard let run = current, let thread else { return }
      if object.isReleased { run.fail(.expectation("\(call) of \(object.name), which was released (\(file):\(line))")) }
      run.listener?(thread.number, call, object, use)
      run.point(thread, call, object, file, line)
      if use != .attempt { run.note(thread, object, isRead: use == .read) }
    }

    private func point(_ me: ModelThread, _ call: StaticString, _ object: ModelObject, _ file: StaticString, _ line: UInt) {
      stepCount += 1
      me.place = (file, line)
      me.next = object.place(for: me)
      trace?.append("\(me.name): \(call) \(object.name) \(file):\(line)")
      if stepCount > Self.mostSteps { fail(.livelock(stepCount)) }
      guard branches, me.isExplored, strategy.isShared(object.id, by: me.number), strategy.mayPreempt else { return }
      let options = ready(first: me)
      let choice = options.count == 1 ? 0 : choose(among: options, firstGoesOn: true)
      if choice != 0 { hand(from: me, to: chosen(options[choice])) }
    }

    private func choose(among options: [ModelThread], firstGoesOn: Bool) -> Int {
      strategy.choose(among: options.map(\.number), firstGoesOn: firstGoesOn, step: stepCount) { state }
    }

    /// The thread waits for others without being blocked.
    static func pass(_ file: StaticString, _ line: UInt) {
      guard let run = current, let thread else { return }
      run.stepCount += 1
      if run.stepCount > mostSteps { run.fail(.livelock(run.stepCount)) }
      let others = run.ready(first: nil).filter { $0 !== thread && !$0.isTimed }
      guard !others.isEmpty else { return }
      thread.past = ModelHash.of(thread.past, 1)
      let choice = others.count == 1 || !run.branches ? 0 : run.choose(among: others, firstGoesOn: false)
      run.hand(from: thread, to: others[choice])
    }

    /// Blocks until the condition holds. Whoever changes what it asks wakes those that are blocked on the object.
    /// - Parameter deadline: the limit of the wait; nil if it has none.
    /// - Returns: false if its time was up.
    @discardableResult
    func block(
      _ me: ModelThread, on object: ModelObject?, _ call: StaticString, noLongerThan deadline: UInt64? = nil,
      until condition: @escaping () -> Bool
    ) -> Bool {
      me.wait = nextWait()
      me.deadline = deadline ?? .max
      me.mayGoOn = condition
      me.hasTimedOut = false
      defer { me.mayGoOn = { true } }
      while !condition() {
        if me.hasTimedOut { return false }
        me.state = deadline != nil ? .waiting(object) : .blocked(object)
        trace?.append("\(me.name): blocked in \(call) \(object?.name ?? "")")
        guard let next = next(after: me, call) else { fail(.deadlock([])) }
        if next !== me { hand(from: me, to: next) }
      }
      // What the condition looks at may be anybody's.
      if object == nil { me.past = ModelHash.of(me.past, allPasts) }
      return true
    }

    /// Whoever sleeps waits for nobody: if nobody else can go on, the time has come.
    func sleep(_ me: ModelThread, until deadline: UInt64) {
      me.isSleeping = true
      block(me, on: nil, "sleep", noLongerThan: deadline) { false }
      me.isSleeping = false
    }

    func wakeAll(on object: ModelObject?) {
      for thread in threads where thread.isBlocked(on: object) && thread.mayGoOn() { thread.state = .ready }
    }

    private func ready(first: ModelThread?) -> [ModelThread] {
      var others = threads.filter { $0.isReady && $0 !== first }
      // A wait that ends early meets others. It is not to save them, if nobody can go on.
      if branches, earlyTimeouts > 0, first != nil || others.contains(where: \.isExplored) {
        others += threads.filter { $0.isTimed && $0.isExplored && $0 !== first }
      }
      // Threads of the library's that are not explored come last, one after the other.
      if !exploresBackground, first.map(\.isExplored) ?? others.contains(where: \.isExplored) {
        others.removeAll { !$0.isExplored }
      } else if !exploresBackground, others.count > 1 {
        others = [others[0]]
      }
      return first.map { [$0] + others } ?? others
    }

    /// The thread is the one to go on. If it waits, that ends early.
    private func chosen(_ thread: ModelThread) -> ModelThread {
      if thread.isTimed {
        earlyTimeouts -= 1
        timeOut(thread)
      }
      return thread
    }

    private func timeOut(_ thread: ModelThread) {
      clock = max(clock, thread.deadline == .max ? 0 : thread.deadline)
      thread.hasTimedOut = true
      thread.past = ModelHash.of(thread.past, allPasts)
      thread.state = .ready
      if !thread.isLaunched {
        thread.isLaunched = true
        launch(thread)
      }
    }

    /// Who goes on when this thread can't; nil if the run is over.
    private func next(after thread: ModelThread, _ call: StaticString) -> ModelThread? {
      let options = ready(first: nil)
      if options.count == 1 { return options[0] }
      if !options.isEmpty {
        return branches ? chosen(options[choose(among: options, firstGoesOn: false)]) : options[0]
      }
      if threads.allSatisfy(\.isFinished) { return nil }
      let timed = threads.filter(\.isTimed).min { ($0.deadline, $0.wait) < ($1.deadline, $1.wait) }
      if let sleeper = threads.first(where: { $0.isSleeping && $0.isExplored }), !timePasses {
        timeOut(sleeper)
        return sleeper
      }
      if let timed, timePasses || threads.allSatisfy({ $0.isFinished || !$0.isPartOfScenario || $0.number == 0 && !branches }) {
        timeOut(timed)
        return timed
      }
      fail(.deadlock(threads.filter { !$0.isFinished }.map(\.description)))
    }

    private func hand(from me: ModelThread, to next: ModelThread) {
      next.baton.signal()
      me.baton.wait()
    }

    /// Gives the run up. The thread stays here.
    func fail(_ failure: Failure) -> Never {
      self.failure = failure
      isOver.signal()
      while true { pause() }
    }
  }

  /// What threads of a run may meet at: an atomic, a lock, a semaphore.
  final class ModelObject: @unchecked Sendable {  // constants, and what is the baton holder's
    /// The same in each run of a scenario: who made it, and as which of that thread's.
    let id: Int
    private let kind: StaticString
    private nonisolated(unsafe) static var madeOutside = 0  // for names only

    private nonisolated(unsafe) var lastRun = 0
    private nonisolated(unsafe) var place = 0
    nonisolated(unsafe) var lastWrite: UInt64 = 0
    nonisolated(unsafe) var reads: UInt64 = 0
    /// Seen by who uses memory after its release, unless that has been overwritten.
    private(set) nonisolated(unsafe) var isReleased = false

    init(_ kind: StaticString) {
      self.kind = kind
      if let thread = ModelRun.thread {
        thread.madeCount += 1
        id = thread.number << 32 | thread.madeCount
      } else {
        Self.madeOutside += 1
        id = -Self.madeOutside
      }
    }

    deinit { isReleased = true }

    /// Who touched it first in this run, and as which of that thread's: for `ModelRun.state`, where who made it is of no use. That may have
    /// been in an earlier run, and which of several it is may depend on an address.
    func place(for thread: ModelThread) -> Int {
      guard lastRun != ModelRun.runCount else { return place }
      thread.touchedCount += 1
      (lastRun, place, lastWrite, reads) = (ModelRun.runCount, thread.number << 32 | thread.touchedCount, 0, 0)
      return place
    }

    var name: String { "\(kind)#\(id < 0 ? "\(id)" : "\(id >> 32).\(id & 0xFFFF_FFFF)")" }
  }
#endif
