import CacheLineProbe
import HeapStatistics

/// A run of the program: what benchmarks measure with, and where their results go.
final class Session {
  let isQuick: Bool
  private(set) var measurements: [Measurement] = []
  private(set) var skipped: [Skipped] = []
  private var benchmark = ""
  private let table: ResultTable?
  private let trims: Bool

  /// Something that was left out, because the machine lacks what it needs.
  struct Skipped: Codable {
    var benchmark: String
    var reason: String
  }

  /// - Parameters:
  ///   - table: shows each result as it comes.
  ///   - trims: before each sample, malloc gives back what it keeps.
  init(isQuick: Bool, table: ResultTable?, trims: Bool = true) {
    self.isQuick = isQuick
    self.table = table
    self.trims = trims
  }

  func run(_ benchmark: Benchmark) throws {
    self.benchmark = benchmark.name
    table?.begin(benchmark)
    do {
      try benchmark.body(self)
    } catch let missing as MissingRequirement {
      skip(missing.description)
    }
  }

  /// Takes what another process has measured, and shown.
  func take(_ part: Report) {
    measurements += part.measurements
    skipped += part.skipped
  }

  /// What this machine can't measure. Not a failure.
  func skip(_ reason: String) {
    let skipped = Skipped(benchmark: benchmark, reason: reason)
    self.skipped.append(skipped)
    table?.show(skipped)
  }

  /// A number for the size of the run.
  func pick<Value>(_ full: Value, quick: Value) -> Value { isQuick ? quick : full }

  // MARK: Measuring

  /// Samples both sides in turn, each first every other time, after one sample of each that doesn't count.
  func compare(
    _ workload: String, unit: String = "ns/op", count: Int, pairs: Int? = nil, warmUp: Bool = true, ours: Contender, peer: Contender,
    parameter: Measurement.Parameter? = nil, target: Target? = nil, note: String? = nil
  ) throws {
    if warmUp {
      _ = try sample(ours)
      _ = try sample(peer)
    }
    var oursSamples: [Double] = []
    var peerSamples: [Double] = []
    var transfers: [Double] = []
    for pair in 0..<(pairs ?? pick(9, quick: 3)) {
      noteTransfer(&transfers)
      if pair % 2 == 0 { oursSamples.append(try sample(ours)) }
      peerSamples.append(try sample(peer))
      if pair % 2 == 1 { oursSamples.append(try sample(ours)) }
    }
    record(
      Measurement(
        benchmark: benchmark, workload: workload, unit: unit, count: count,
        ours: .init(name: ours.name, samples: Spread(of: oursSamples)),
        peer: .init(name: peer.name, samples: Spread(of: peerSamples)),
        ratio: Spread(of: zip(oursSamples, peerSamples).map { $0 / $1 }),
        parameter: parameter, target: target, note: note, cacheLineTransfer: transfers.isEmpty ? nil : Spread(of: transfers)))
  }

  private func noteTransfer(_ transfers: inout [Double]) {
    let transfer = cache_line_transfer_nanoseconds()
    if transfer > 0 { transfers.append(transfer) }
  }

  /// A peer that lets a million jobs pile up leaves memory to malloc that is strewn over hundreds of megabytes. Whoever comes next would be
  /// given it bit by bit, and none of it is in a cache: up to twice the time of a job of ours.
  private func sample(_ contender: Contender) throws -> Double {
    if trims { heap_trim() }
    return try contender.sample()
  }

  /// Samples ours alone, where there is nothing to compare with, after one sample that doesn't count.
  func measure(
    _ workload: String, unit: String = "ns/op", count: Int, samples: Int? = nil, ours: Contender,
    parameter: Measurement.Parameter? = nil, target: Target? = nil, note: String? = nil
  ) throws {
    _ = try sample(ours)
    var values: [Double] = []
    for _ in 0..<(samples ?? pick(9, quick: 3)) { values.append(try sample(ours)) }
    record(workload, unit: unit, count: count, ours: ours.name, values, parameter: parameter, target: target, note: note)
  }

  /// Takes samples that the benchmark has taken itself, those of the peer in pairs with ours.
  func record(
    _ workload: String, unit: String, count: Int, ours: String, _ oursSamples: [Double], peer: String? = nil, _ peerSamples: [Double] = [],
    parameter: Measurement.Parameter? = nil, target: Target? = nil, note: String? = nil
  ) {
    record(
      Measurement(
        benchmark: benchmark, workload: workload, unit: unit, count: count, ours: .init(name: ours, samples: Spread(of: oursSamples)),
        peer: peer.map { .init(name: $0, samples: Spread(of: peerSamples)) },
        ratio: peer == nil ? nil : Spread(of: zip(oursSamples, peerSamples).map { $0 / $1 }),
        parameter: parameter, target: target, note: note))
  }

  private func record(_ measurement: Measurement) {
    var measurement = measurement
    if let target = measurement.target {
      measurement.verdict = isQuick ? .notJudged : target.isMet(by: measurement) ? .met : .missed
    }
    measurements.append(measurement)
    table?.show(measurement)
  }
}

/// Thrown by benchmarks that can't run here.
struct MissingRequirement: Error, CustomStringConvertible {
  let description: String
}

/// Thrown when a contender has not done all of its work, which makes its times worthless.
struct WrongResult: Error, CustomStringConvertible {
  let description: String

  static func check(_ actual: Int, is expected: Int, _ what: String) throws {
    guard actual == expected else { throw WrongResult(description: "\(what): \(actual), should be \(expected)") }
  }
}
