#if OWNED_OPERATIONS_MODEL
  /// Which schedules come to the same state.
  ///
  /// Two schedules that differ only in the order of steps that touch different objects, or that only read the same one, are the same run.
  /// So a state is known by what has happened before what. Each thread has a number for its past. It comes of all that the thread has done,
  /// and of what was done before to the objects that it touched. Two runs in which all threads have the same pasts, and stand at the same
  /// places, go on alike.
  ///
  /// That supposes that threads hear of each other by nothing but objects. Where a scenario keeps book of what happens in plain variables,
  /// it notes that (`ModelRun.note`). What the library does by counts of references passes a `ModelPoint` where it decides anything. Else
  /// it only shows in where a thread stands, and so that belongs to the state.
  extension ModelRun {
    /// How a point touches its object.
    enum Use {
      case read, write
      /// It may come to nothing, or later: it is noted when it succeeds.
      case attempt
    }

    /// The thread touches the object. No decision.
    static func note(_ object: ModelObject) {
      guard let current, let thread else { return }
      current.note(thread, object, isRead: false)
    }

    func note(_ thread: ModelThread, _ object: ModelObject, isRead: Bool) {
      let place = object.place(for: thread)
      var event = ModelHash.of(thread.past, ModelHash.of(object.lastWrite, place))
      if isRead {
        object.reads &+= event
      } else {
        event = ModelHash.of(event, object.reads)
        (object.lastWrite, object.reads) = (event, 0)
      }
      thread.past = event
    }

    /// The pasts of all threads. They belong to the past of a thread that goes on because of anything that others have done.
    var allPasts: UInt64 { threads.reduce(0) { ModelHash.of($0, $1.past) } }

    /// The same for runs that go on in the same ways, given the same decisions. Others share it by a chance of one in 2^64 for each two.
    var state: UInt64 {
      var state = ModelHash.of(clock, UInt64(earlyTimeouts))
      let timed = threads.filter(\.isTimed)
      for thread in threads {
        state = ModelHash.of(state, thread.past)
        state = ModelHash.of(state, UInt64(bitPattern: Int64(thread.next)) &* 8 &+ thread.stateNumber)
        state = ModelHash.of(state, UInt64(UInt(bitPattern: thread.place.0.utf8Start)) &+ UInt64(thread.place.1))
        if thread.isTimed {
          let before = timed.count { ($0.deadline, $0.wait) < (thread.deadline, thread.wait) }
          state = ModelHash.of(state, thread.deadline &+ UInt64(before))
        }
      }
      return state
    }
  }

  enum ModelHash {
    static func of(_ first: UInt64, _ second: UInt64) -> UInt64 {
      var mixed = (first ^ (second &* 0x9E37_79B9_7F4A_7C15)) &+ 0x632B_E59B_D9B4_E019
      mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
      mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
      return mixed ^ (mixed >> 31)
    }

    static func of(_ first: UInt64, _ second: Int) -> UInt64 { of(first, UInt64(bitPattern: Int64(second)) &+ 1) }
  }
#endif
