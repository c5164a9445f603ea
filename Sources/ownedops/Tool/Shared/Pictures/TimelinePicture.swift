import Foundation

/// An SVG picture. It has a row for each worker, a bar for each job in the colour of its owner, a cross where a job was cancelled. Jobs
/// that never ran have rows of their own below.
struct TimelinePicture {
  private let record: JobRecorder.Record
  private let layout: TimelineLayout
  private let last: Double
  /// Those that have worked most come first.
  private let owners: [String: Int]
  private let lanes: Int

  private static let width = 1200.0
  private static let left = 90.0
  private static let right = 40.0
  private static let rowHeight = 22.0
  private static let lineHeight = 16.0
  private static let mostOwnersInLegend = 12
  private static let mostRowsOfInstants = 12

  init(_ record: JobRecorder.Record) {
    self.record = record
    last = max(record.events.map(\.end).max() ?? 0, record.instants.map(\.time).max() ?? 0, 1e-6)
    layout = TimelineLayout(scale: (Self.width - Self.left - Self.right) / last)
    lanes = (record.events.compactMap(\.lane).max() ?? -1) + 1
    var busy: [String: Double] = [:]
    for event in record.events { busy[event.owner, default: 0] += event.end - event.start }
    let owners = busy.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map(\.key)
    self.owners = Dictionary(uniqueKeysWithValues: zip(owners, owners.indices))
  }

  var svg: String {
    let cancellations = layout.cancellations(record.events, upTo: Self.width - Self.left) { label($0) }
    let rows = lanes + (cancellations.map(\.row).max() ?? -1) + 1
    let legend = legend(hasCancellations: !cancellations.isEmpty)
    let top = 12 + Double(legend.lines) * Self.lineHeight + 6
    let bottom = top + Double(rows) * Self.rowHeight
    let instants = instantLabels
    let ticksAt = bottom + 16 + Double((instants.compactMap(\.row).max() ?? 0) + 1) * Self.lineHeight
    var text = """
      <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(Int(Self.width)) \(Int(ticksAt) + 8)" font-family="sans-serif" font-size="11">
      <rect width="100%" height="100%" fill="white"/>

      """
    text += legend.text
    for row in 0..<lanes { text += rowLabel("worker \(row + 1)", y: top + Double(row) * Self.rowHeight) }
    if rows > lanes { text += rowLabel("never ran", y: top + Double(lanes) * Self.rowHeight) }
    for bar in layout.bars(record.events) { text += drawn(bar, y: top + Double(bar.lane) * Self.rowHeight) }
    for cancellation in cancellations { text += drawn(cancellation, y: top + Double(lanes + cancellation.row) * Self.rowHeight) }
    for instant in instants { text += drawn(instant, top, bottom) }
    let ticks = TimelineLayout.ticks(upTo: last)
    for time in ticks.times {
      text += "<text x=\"\(x(time))\" y=\"\(number(ticksAt))\" text-anchor=\"middle\" fill=\"#666\">\(ticks.label(time))</text>\n"
    }
    return text + "</svg>\n"
  }

  // MARK: Parts

  private func rowLabel(_ label: String, y: Double) -> String {
    "<text x=\"8\" y=\"\(number(y + 15))\">\(label)</text>\n"
  }

  private static func stroke(_ outcome: JobRecorder.Outcome) -> String {
    switch outcome {
    case .succeeded: ""
    case .failed: " stroke=\"#c00\" stroke-width=\"1.5\""
    case .cancelled: " stroke=\"#000\" stroke-width=\"1.5\""
    }
  }

  private func drawn(_ bar: TimelineLayout.Bar, y: Double) -> String {
    let width = max((bar.end - bar.start) * layout.scale, TimelineLayout.narrowest)
    let what = bar.count > 1 ? "\(Shown.count(bar.count)) jobs" : bar.name
    let title = Self.escaped("\(what), \(bar.owner): \(bar.outcome.rawValue), \(Shown.seconds(bar.end - bar.start))")
    var text = "<rect x=\"\(x(bar.start))\" y=\"\(number(y + 2))\" width=\"\(number(width))\" height=\"18\" fill=\"\(colour(bar.owner))\""
    text += "\(Self.stroke(bar.outcome))><title>\(title)</title></rect>\n"
    let label = bar.count > 1 ? bar.owner : bar.name
    if TimelineLayout.width(of: label) + (bar.outcome == .cancelled ? 16 : 8) < width {
      text += "<text x=\"\(number(Self.left + bar.start * layout.scale + 4))\" y=\"\(number(y + 15))\">\(Self.escaped(label))</text>\n"
    }
    if bar.outcome == .cancelled { text += cross(Self.left + bar.end * layout.scale, y, "#000", title) }
    return text
  }

  private func label(_ cancellation: TimelineLayout.Cancellation) -> String {
    let what = cancellation.count > 1 ? "\(Shown.count(cancellation.count)) of \(cancellation.owner)" : cancellation.names[0]
    return what.count > 30 ? what.prefix(29) + "…" : what
  }

  private func drawn(_ cancellation: TimelineLayout.Cancellation, y: Double) -> String {
    let centre = Self.left + cancellation.time * layout.scale
    let names = cancellation.names.joined(separator: ", ")
    let title = Self.escaped("\(names), \(cancellation.owner): cancelled, never ran")
    var text = cross(centre, y, colour(cancellation.owner), title)
    text += "<text x=\"\(number(centre + (cancellation.labelIsLeft ? -8 : 8)))\" y=\"\(number(y + 15))\""
    text += "\(cancellation.labelIsLeft ? " text-anchor=\"end\"" : "")>\(Self.escaped(cancellation.label))</text>\n"
    return text
  }

  private func cross(_ centre: Double, _ y: Double, _ colour: String, _ title: String) -> String {
    "<path d=\"M\(number(centre - 4)) \(number(y + 7))l8 8m0 -8l-8 8\" stroke=\"\(colour)\" stroke-width=\"2\"><title>\(title)</title></path>\n"
  }

  private struct InstantLabel {
    let name: String
    let time: Double
    let centre: Double
    let row: Int?
  }

  /// Below the rows, each where it does not cover another.
  private var instantLabels: [InstantLabel] {
    var rows: [[ClosedRange<Double>]] = []
    return record.instants.sorted { $0.time < $1.time }.map { instant in
      let name = Self.cut(instant.name, 60)
      let half = TimelineLayout.width(of: name) / 2 + 3
      let centre = min(max(Self.left + instant.time * layout.scale, half), Self.width - half)
      // Where there are more than that at one time, the others are lines alone.
      let row = TimelineLayout.row(for: centre - half...centre + half, in: &rows, most: Self.mostRowsOfInstants)
      return InstantLabel(name: name, time: instant.time, centre: centre, row: row)
    }
  }

  private func drawn(_ instant: InstantLabel, _ top: Double, _ bottom: Double) -> String {
    let line = "<path d=\"M\(x(instant.time)) \(number(top))V\(number(bottom))\" stroke=\"#c00\" stroke-dasharray=\"3 2\"/>"
    guard let row = instant.row else { return line + "\n" }
    let y = bottom + 14 + Double(row) * Self.lineHeight
    let label = "<text x=\"\(number(instant.centre))\" y=\"\(number(y))\" fill=\"#c00\" text-anchor=\"middle\">"
    return line + label + "\(Self.escaped(instant.name))</text>\n"
  }

  /// Owners with their colours, then what outlines and crosses mean, in as many lines as it takes.
  private func legend(hasCancellations: Bool) -> (text: String, lines: Int) {
    var entries: [(label: String, mark: (_ x: Double, _ y: Double) -> String)] = []
    func add(_ label: String, _ mark: @escaping (_ x: Double, _ y: Double) -> String) { entries.append((label, mark)) }
    func box(_ fill: String, _ stroke: String) -> (Double, Double) -> String {
      { x, y in "<rect x=\"\(number(x))\" y=\"\(number(y - 9))\" width=\"10\" height=\"10\" fill=\"\(fill)\"\(stroke)/>" }
    }
    let shown = owners.sorted { $0.value < $1.value }.prefix(Self.mostOwnersInLegend)
    for (owner, _) in shown { add(Self.cut(owner, 24), box(colour(owner), "")) }
    if owners.count > shown.count { add("and \(owners.count - shown.count) more") { _, _ in "" } }
    let outcomes = Set(record.events.lazy.filter { $0.lane != nil }.map(\.outcome))
    if outcomes.contains(.failed) { add("failed", box("white", Self.stroke(.failed))) }
    if outcomes.contains(.cancelled) { add("cancelled while it ran", box("white", Self.stroke(.cancelled))) }
    if hasCancellations { add("never ran") { x, y in cross(x + 5, y - 15, "#000", "a job that never ran") } }

    var text = ""
    var x = Self.left
    var line = 0
    for (label, mark) in entries {
      let width = 14 + TimelineLayout.width(of: label)
      if x > Self.left, x + width > Self.width - 8 {
        x = Self.left
        line += 1
      }
      let y = 21 + Double(line) * Self.lineHeight
      text += mark(x, y) + "<text x=\"\(number(x + 14))\" y=\"\(number(y))\">\(Self.escaped(label))</text>\n"
      x += width + 16
    }
    return (text, line + 1)
  }

  private static func cut(_ text: String, _ most: Int) -> String { text.count > most ? text.prefix(most - 1) + "…" : text }

  // MARK: Numbers, colours, names

  private func x(_ time: Double) -> String { number(Self.left + time * layout.scale) }
  private func number(_ value: Double) -> String { Shown.decimal(value, 1) }

  /// Neighbours differ: the hue goes round by the golden angle, but not through red, which stands for failure. As red, green and blue,
  /// which every program that shows SVG knows.
  private func colour(_ owner: String) -> String { owners[owner].map(Self.colour) ?? "#888888" }

  static func colour(_ place: Int) -> String {
    let around = (Double(place) * 137.508).truncatingRemainder(dividingBy: 360) / 360
    let hue = (35 + around * 290) / 60
    let lightness = place % 2 == 0 ? 0.62 : 0.75
    let chroma = (1 - abs(2 * lightness - 1)) * 0.6
    func part(_ shift: Double) -> Int {
      let distance = abs((hue + shift).truncatingRemainder(dividingBy: 6) - 3)
      return Int(((lightness - chroma / 2 + chroma * min(max(distance - 1, 0), 1)) * 255).rounded())
    }
    return String(format: "#%02x%02x%02x", part(0), part(4), part(2))
  }

  /// Also without the characters that XML does not allow, not even escaped.
  static func escaped(_ text: String) -> String {
    var result = ""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "<": result += "&lt;"
      case ">": result += "&gt;"
      case "&": result += "&amp;"
      case "\"": result += "&quot;"
      case "\n": result += "\n"
      case "\u{0}"..<"\u{20}", "\u{7f}", "\u{fffe}", "\u{ffff}": result += "\u{fffd}"
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result
  }
}
