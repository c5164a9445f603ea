#if ONETBB
  import OneTBBPeer
#endif

/// What the C++ target does, where there is one.
enum OneTBB {
  static var isAvailable: Bool {
    #if ONETBB
      true
    #else
      false
    #endif
  }

  static let missing = MissingRequirement(
    description: "oneTBB's headers were not found when this was built (Debian: libtbb-dev); the comparison is left out")

  /// Throws where oneTBB is missing.
  static func taskGroup(jobs: Int) throws -> Contender {
    #if ONETBB
      Contender("oneTBB task_group", operations: jobs) {
        try WrongResult.check(Int(onetbb_run_task_group(Int64(jobs))), is: Screen.visits(of: jobs), "counted tasks")
      }
    #else
      throw missing
    #endif
  }

  /// Each task adds two, as far as there are so many. Throws where oneTBB is missing.
  static func nestedTaskGroup(tasks: Int) throws -> Contender {
    #if ONETBB
      Contender("oneTBB task_group", operations: tasks) {
        try WrongResult.check(Int(onetbb_run_nested_task_group(Int64(tasks))), is: Screen.visits(of: tasks), "counted tasks")
      }
    #else
      throw missing
    #endif
  }

  /// Building the graph, running it once, and freeing it, per node. Throws where oneTBB is missing.
  static func flowGraph(_ shape: GraphShape) throws -> Contender {
    #if ONETBB
      Contender("oneTBB flow graph", operations: shape.nodeCount) {
        let visits = shape.edges.withUnsafeBufferPointer { edges in
          shape.roots.withUnsafeBufferPointer { roots in
            onetbb_run_flow_graph(
              Int64(shape.nodeCount), UnsafeRawPointer(edges.baseAddress)?.assumingMemoryBound(to: UInt32.self), Int64(edges.count),
              roots.baseAddress, Int64(roots.count))
          }
        }
        try WrongResult.check(Int(visits), is: Screen.visits(of: shape.nodeCount), "counted nodes")
      }
    #else
      throw missing
    #endif
  }
}
