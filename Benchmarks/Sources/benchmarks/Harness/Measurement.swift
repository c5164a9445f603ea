/// One line of the result: what was measured of ours, next to a peer or to a target.
struct Measurement: Codable {
  /// Medians of all samples of one side, and how far they spread.
  struct Side: Codable {
    var name: String
    var samples: Spread
  }

  /// Where a measurement stands in a series, for plots.
  struct Parameter: Codable {
    var name: String
    var value: Double
  }

  enum Verdict: String, Codable {
    case met, missed
    /// A quick run is too small to judge by.
    case notJudged
  }

  var benchmark: String
  var workload: String
  /// What the samples of both sides are in, for example `ns/op`.
  var unit: String
  /// Operations in one sample.
  var count: Int
  var ours: Side
  var peer: Side?
  /// Of ours to the peer's, pair by pair.
  var ratio: Spread?
  var parameter: Parameter?
  var target: Target?
  var verdict: Verdict?
  var note: String?
  /// How long a cache line took from one processor to the other, in nanoseconds, before each pair of samples: the machine's state.
  var cacheLineTransfer: Spread?
}

/// Where the middle of samples is, and how far they reach.
struct Spread: Codable {
  var minimum: Double
  var lowerQuartile: Double
  var median: Double
  var upperQuartile: Double
  var maximum: Double
  var count: Int

  /// - Parameter samples: at least one.
  init(of samples: [Double]) {
    let sorted = samples.sorted()
    minimum = sorted[0]
    lowerQuartile = sorted.quantile(0.25)
    median = sorted.quantile(0.5)
    upperQuartile = sorted.quantile(0.75)
    maximum = sorted[sorted.count - 1]
    count = sorted.count
  }
}

extension [Double] {
  /// Of sorted elements, at least one, interpolated.
  func quantile(_ fraction: Double) -> Double {
    let position = fraction * Double(count - 1)
    let below = Int(position)
    let above = Swift.min(below + 1, count - 1)
    return self[below] + (self[above] - self[below]) * (position - Double(below))
  }
}

/// What a measurement must come to.
struct Target: Codable {
  enum Quantity: String, Codable {
    case ratio, ours
  }

  enum Relation: String, Codable {
    case atMost = "<="
    case atLeast = ">="
  }

  var quantity: Quantity
  var relation: Relation
  var limit: Double
  /// Wished for, not required.
  var isStretch = false

  static func ratio(atMost limit: Double, isStretch: Bool = false) -> Target {
    Target(quantity: .ratio, relation: .atMost, limit: limit, isStretch: isStretch)
  }
  static func ours(atMost limit: Double) -> Target { Target(quantity: .ours, relation: .atMost, limit: limit) }
  static func ours(atLeast limit: Double) -> Target { Target(quantity: .ours, relation: .atLeast, limit: limit) }

  /// Medians count, never the best of one side.
  func isMet(by measurement: Measurement) -> Bool {
    let value = quantity == .ratio ? measurement.ratio?.median : measurement.ours.samples.median
    guard let value else { return false }
    return relation == .atMost ? value <= limit : value >= limit
  }
}
