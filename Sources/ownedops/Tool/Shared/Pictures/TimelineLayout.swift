import Foundation

/// Where things go in a timeline: what is too narrow to be told from its neighbour is drawn as one with it.
struct TimelineLayout {
  /// Units of the picture for each second.
  let scale: Double

  struct Bar {
    let lane: Int
    let owner: String
    let start: Double
    var end: Double
    var count: Int
    /// The job's, if there is one only.
    var name: String
    var outcome: JobRecorder.Outcome
  }

  /// Jobs of one owner that were cancelled at about the same time and never ran.
  struct Cancellation {
    let owner: String
    let time: Double
    var count: Int
    var names: [String]
    var row = 0
    var label = ""
    /// What the cross and its label take. The label is to the left of the cross where there is no room to its right.
    var extent = 0.0...0.0
    var labelIsLeft = false
  }

  /// How wide a text is, in units of the picture. Rather too wide than too narrow: what fonts have differs.
  static func width(of text: some StringProtocol) -> Double {
    text.unicodeScalars.reduce(0) { width, scalar in
      switch scalar.value {
      case 0x300...0x36f, 0x200b...0x200f, 0xfe00...0xfe0f: width
      case 0x1100..<0x1200, 0x2e80..<0xd7b0, 0xf900..<0xfb00, 0xfe30..<0xfe70, 0xff00..<0xff61, 0x1f000...: width + 12
      default: width + ("mwMW@%…".unicodeScalars.contains(scalar) ? 11 : scalar.properties.isUppercase ? 8.5 : 6.5)
      }
    }
  }

  /// The first row in which nothing is in the way; nil if there is something in each of so many.
  /// - Parameter rows: what is taken in each; the place found is added.
  static func row(for extent: ClosedRange<Double>, in rows: inout [[ClosedRange<Double>]], most: Int = .max) -> Int? {
    let row = rows.firstIndex { taken in !taken.contains { $0.overlaps(extent) } } ?? rows.count
    guard row < most else { return nil }
    if row == rows.count { rows.append([]) }
    rows[row].append(extent)
    return row
  }

  static let narrowest = 1.0
  private static let bucket = 12.0
  private static let mostOwners = 12

  /// By lane, then by time. A job that did not succeed is drawn by itself.
  func bars(_ events: [JobRecorder.Event]) -> [Bar] {
    var lanes: [[JobRecorder.Event]] = []
    for event in events {
      guard let lane = event.lane else { continue }
      while lanes.count <= lane { lanes.append([]) }
      lanes[lane].append(event)
    }
    var bars: [Bar] = []
    for (lane, events) in lanes.enumerated() {
      let first = bars.count
      for event in events.sorted(by: { $0.start < $1.start }) {
        if bars.count > first, join(event, to: &bars[bars.count - 1]) { continue }
        bars.append(
          Bar(
            lane: lane, owner: event.owner, start: event.start, end: event.end, count: event.count, name: event.name,
            outcome: event.outcome))
      }
    }
    return bars
  }

  private func join(_ event: JobRecorder.Event, to bar: inout Bar) -> Bool {
    guard event.outcome == .succeeded, bar.outcome == .succeeded else { return false }
    let reach = max((bar.end - bar.start) * scale, Self.narrowest)
    let isCovered = (event.end - bar.start) * scale <= reach
    let isNarrow = (event.end - event.start) * scale < Self.narrowest
    let touches = (event.start - bar.end) * scale < Self.narrowest / 2
    let lastWasNarrow = bar.count > 1 || (bar.end - bar.start) * scale < Self.narrowest
    guard isCovered || event.owner == bar.owner && touches && isNarrow && lastWasNarrow else { return false }
    bar.end = max(bar.end, event.end)
    bar.count += event.count
    return true
  }

  /// In the order of time, each in a row where it does not cover another. Of many owners at one time those with the most jobs, and one for
  /// the others.
  /// - Parameters:
  ///   - right: how far to the right a label may go.
  ///   - label: of one.
  func cancellations(_ events: [JobRecorder.Event], upTo right: Double, label: (Cancellation) -> String) -> [Cancellation] {
    var buckets: [Int: [String: Cancellation]] = [:]
    for event in events where event.lane == nil {
      let bucket = Int(event.start * scale / Self.bucket)
      var cancellation = buckets[bucket]?[event.owner] ?? Cancellation(owner: event.owner, time: event.start, count: 0, names: [])
      cancellation.count += event.count
      if cancellation.names.count < 20 { cancellation.names.append(event.name) }
      buckets[bucket, default: [:]][event.owner] = cancellation
    }
    var result: [Cancellation] = []
    var rows: [[ClosedRange<Double>]] = []
    for (_, owners) in buckets.sorted(by: { $0.key < $1.key }) {
      for var cancellation in Self.withOthersAsOne(owners.values.sorted { ($1.count, $0.owner) < ($0.count, $1.owner) }) {
        let centre = cancellation.time * scale
        cancellation.label = label(cancellation)
        let width = 14 + Self.width(of: cancellation.label)
        cancellation.labelIsLeft = centre + width > right
        cancellation.extent = cancellation.labelIsLeft ? centre - width...centre + 6 : centre - 6...centre + width
        cancellation.row = Self.row(for: cancellation.extent, in: &rows) ?? 0
        result.append(cancellation)
      }
    }
    return result
  }

  private static func withOthersAsOne(_ cancellations: [Cancellation]) -> [Cancellation] {
    guard cancellations.count > mostOwners else { return cancellations }
    let others = cancellations[(mostOwners - 1)...]
    let count = others.reduce(0) { $0 + $1.count }
    let one = Cancellation(owner: "\(others.count) others", time: others[mostOwners - 1].time, count: count, names: ["jobs"])
    return cancellations[..<(mostOwners - 1)] + [one]
  }

  /// Not more than ten steps of 1, 2 or 5 times a power of ten, and how many decimals tell them apart.
  static func ticks(upTo last: Double) -> (times: [Double], label: (Double) -> String) {
    let power = pow(10, floor(log10(last / 10)))
    let step = [1, 2, 5, 10].map { $0 * power }.first { last / $0 <= 10 } ?? 10 * power
    let times = (0...Int(last / step)).map { Double($0) * step }
    let isSmall = last < 0.1
    let shownStep = isSmall ? step * 1000 : step
    let decimals = max(0, Int(ceil(-log10(shownStep) - 1e-9)))
    return (times, { isSmall ? "\(Shown.decimal($0 * 1000, decimals)) ms" : "\(Shown.decimal($0, decimals)) s" })
  }
}
