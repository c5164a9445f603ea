import Foundation

/// Results as lines for people, as they come.
final class ResultTable {
  private let isQuick: Bool

  init(isQuick: Bool) { self.isQuick = isQuick }

  func begin(_ benchmark: Benchmark) {
    write("\n\(benchmark.name): \(benchmark.summary)\n")
    write(Self.line("workload: ours / peer", "ours", "peer", "unit", "ratio", "min..max", "target", "", "cache line"))
  }

  func show(_ skipped: Session.Skipped) { write("  skipped: \(skipped.reason)\n") }

  func show(_ measurement: Measurement) {
    let target = measurement.target.map { target in
      target.relation.rawValue + " " + Self.figure(target.limit) + (target.quantity == .ratio ? " x" : "")
        + (target.isStretch ? ", stretch" : "")
    }
    let verdict =
      switch measurement.verdict {
      case .met: "met"
      case .missed: "MISSED"
      case .notJudged: "too small to judge"
      case nil: ""
      }
    write(
      Self.line(
        Self.title(measurement), Self.figure(measurement.ours.samples.median),
        measurement.peer.map { Self.figure($0.samples.median) } ?? "", measurement.unit,
        measurement.ratio.map { Self.figure($0.median) } ?? "", Self.range(measurement.ratio ?? measurement.ours.samples), target ?? "",
        verdict, measurement.cacheLineTransfer.map(Self.transfer) ?? ""))
    if let note = measurement.note { write("      \(note)\n") }
  }

  func finish(_ session: Session) {
    let judged = session.measurements.filter { $0.verdict == .met || $0.verdict == .missed }
    let missed = judged.filter { $0.verdict == .missed }
    write("\n\(session.measurements.count) measurements")
    if isQuick { write(", quick: too small to judge by") }
    if !judged.isEmpty { write(", \(judged.count - missed.count) of \(judged.count) targets met") }
    if !session.skipped.isEmpty { write(", \(session.skipped.count) skipped") }
    write("\n")
    for measurement in missed {
      write("  missed\(measurement.target?.isStretch == true ? ", stretch" : ""): \(measurement.benchmark), \(Self.title(measurement))\n")
    }
  }

  private func write(_ text: String) { FileHandle.standardOutput.write(Data(text.utf8)) }

  // MARK: Text

  private static func title(_ measurement: Measurement) -> String {
    measurement.workload + ": " + measurement.ours.name + (measurement.peer.map { " / " + $0.name } ?? "")
  }

  private static func line(
    _ workload: String, _ ours: String, _ peer: String, _ unit: String, _ ratio: String, _ range: String, _ target: String,
    _ verdict: String, _ transfer: String
  ) -> String {
    let text =
      "  " + padded(workload, 84) + padded(ours, -11) + padded(peer, -11) + "  " + padded(unit, 10) + padded(ratio, -9) + "  "
      + padded(range, 17) + padded(target, 18) + padded(verdict, 8) + transfer
    return text.reversed().drop { $0 == " " }.reversed() + "\n"
  }

  /// To the left of `width` characters, or, if that is negative, to the right.
  private static func padded(_ text: String, _ width: Int) -> String {
    let space = String(repeating: " ", count: max(width < 0 ? 0 : 1, abs(width) - text.count))
    return width < 0 ? space + text : text + space
  }

  /// In one state of the machine, or from one to another.
  private static func transfer(_ spread: Spread) -> String {
    let (least, most) = (spread.minimum.rounded(), spread.maximum.rounded())
    return most < 2 * least ? String(format: "%.0f ns", spread.median) : String(format: "%.0f..%.0f ns", least, most)
  }

  private static func range(_ spread: Spread) -> String { figure(spread.minimum) + ".." + figure(spread.maximum) }

  /// With about three digits that count.
  static func figure(_ value: Double) -> String {
    switch abs(value) {
    case 0: "0"
    case ..<0.01: String(format: "%.5f", value)
    case ..<1: String(format: "%.3f", value)
    case ..<10: String(format: "%.2f", value)
    case ..<1000: String(format: "%.1f", value)
    default: String(format: "%.0f", value)
    }
  }
}
