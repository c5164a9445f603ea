#if OWNED_OPERATIONS_MODEL
  import Dispatch
  import Glibc
  import Synchronization

  /// A thread of a run. Its state is that run's to change.
  final class ModelThread: @unchecked Sendable, CustomStringConvertible {  // the baton holder's
    enum State {
      case ready, finished
      case blocked(ModelObject?)
      case waiting(ModelObject?)
    }

    let number: Int
    let name: String
    let isPartOfScenario: Bool
    /// Whether its points are decisions.
    let isExplored: Bool
    let baton = Dispatch.DispatchSemaphore(value: 0)
    var state = State.ready
    var hasTimedOut = false
    var mayGoOn: () -> Bool = { true }
    /// When its wait began.
    var wait = 0
    /// The limit of its wait.
    var deadline = UInt64.max
    var isSleeping = false
    /// Not one that has yet to begin.
    var isLaunched = true
    var place: (StaticString, UInt) = ("", 0)
    /// See `ModelRun.state`.
    var past: UInt64 = 0
    /// The object that it is about to touch, or has touched last.
    var next = 0
    /// How many objects it has made, and how many it was the first of the run to touch.
    var madeCount = 0
    var touchedCount = 0

    private var body: (@Sendable () -> Void)?

    init(
      number: Int, name: String, isPartOfScenario: Bool, isExplored: Bool, _ body: @escaping @Sendable () -> Void
    ) {
      (self.number, self.name, self.isPartOfScenario, self.isExplored) = (number, name, isPartOfScenario, isExplored)
      self.body = body
    }

    func wait(until deadline: UInt64, since wait: Int) {
      (self.deadline, self.wait) = (deadline, wait)
      isLaunched = false
      mayGoOn = { false }
      state = .waiting(nil)
    }

    func cancel() {
      state = .finished
      body = nil
    }

    /// What the body captured goes here, too: its deinits are part of the run.
    func runBody() {
      body?()
      body = nil
    }

    var isFinished: Bool { if case .finished = state { true } else { false } }
    /// For `ModelRun.state`.
    var stateNumber: UInt64 {
      switch state {
      case .ready: isLaunched ? 0 : 1
      case .finished: 2
      case .blocked: 3
      case .waiting: hasTimedOut ? 4 : 5
      }
    }
    var isReady: Bool { if case .ready = state { true } else { false } }
    var isTimed: Bool { if case .waiting = state { true } else { false } }

    func isBlocked(on object: ModelObject?) -> Bool {
      switch state {
      case .blocked(let other), .waiting(let other): other === object
      default: false
      }
    }

    var description: String { "\(name) after \(place.0):\(place.1)" }

    /// Runs the body on a thread of the system's. Threads are used again: to make one costs as much as a run.
    static func start(_ body: @escaping @Sendable () -> Void) {
      let idle = idleThreads.withLock { $0.popLast() }
      let thread = idle ?? SystemThread()
      thread.body = body
      if idle == nil { thread.make() } else { thread.isCalled.signal() }
    }

    private static let idleThreads = Mutex<[SystemThread]>([])

    /// One that runs a body, and then waits for the next.
    private final class SystemThread: @unchecked Sendable {  // `body` is handed over by the semaphore
      let isCalled = Dispatch.DispatchSemaphore(value: 0)
      var body: (@Sendable () -> Void)?

      func make() {
        var thread = pthread_t()
        let error = Glibc.pthread_create(
          &thread, nil,
          { context in
            if let context { Unmanaged<SystemThread>.fromOpaque(context).takeRetainedValue().run() }
            return nil
          }, Unmanaged.passRetained(self).toOpaque())
        precondition(error == 0, "no thread to be had for the model")
        _ = Glibc.pthread_detach(thread)
      }

      private func run() {
        while let body {
          self.body = nil
          body()
          ModelThread.idleThreads.withLock { $0.append(self) }
          isCalled.wait()
        }
      }
    }
  }
#endif
