/// A task that can be run alone in a process, so many times, for a tool that looks at the process as a whole.
struct Probe {
  let name: String
  let run: (Int) throws -> Void

  init(_ name: String, _ run: @escaping (Int) throws -> Void) {
    self.name = name
    self.run = run
  }

  static var all: [Probe] { jobs + shapes + graphs + owners + memory + observation + downloads + Benchmark.requestProbes }

  static var list: String { all.map(\.name).joined(separator: "\n") }
}
