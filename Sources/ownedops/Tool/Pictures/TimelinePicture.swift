import Foundation

/// An SVG picture: a row for each worker, a bar for each job in the colour of its owner, a cross where a job was cancelled. Jobs that never ran have
/// rows of their own below.
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
  private static let top = 40.0
  private static let mostOwnersInLegend = 12
  private static let characterWidth = 6.2

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
    let cancellations = layout.cancellations(record.events) { 16 + Double(label($0).count) * Self.characterWidth }
    let rows = lanes + (cancellations.map(\.row).max() ?? -1) + 1
    let bottom = Self.top + Double(rows) * Self.rowHeight
    let height = Int(bottom) + 40
    var text = """
      <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(Int(Self.width)) \(height)" font-family="sans-serif" font-size="11">
      <rect width="100%" height="100%" fill="white"/>

      """
    text += legend
    for row in 0..<lanes { text += rowLabel("worker \(row + 1)", row) }
    if rows > lanes { text += rowLabel("never ran", lanes) }
    for bar in layout.bars(record.events) { text += drawn(bar) }
    for cancellation in cancellations { text += drawn(cancellation) }
    for instant in record.instants { text += drawn(instant, bottom) }
    let ticks = TimelineLayout.ticks(upTo: last)
    for time in ticks.times {
      text += "<text x=\"\(x(time))\" y=\"\(number(bottom + 32))\" text-anchor=\"middle\" fill=\"#666\">\(ticks.label(time))</text>\n"
    }
    return text + "</svg>\n"
  }

  // MARK: Parts

  private func rowLabel(_ label: String, _ row: Int) -> String {
    "<text x=\"8\" y=\"\(number(Self.top + Double(row) * Self.rowHeight + 15))\">\(label)</text>\n"
  }

  private func drawn(_ bar: TimelineLayout.Bar) -> String {
    let y = Self.top + Double(bar.lane) * Self.rowHeight
    let width = max((bar.end - bar.start) * layout.scale, TimelineLayout.narrowest)
    let what = bar.count > 1 ? "\(Shown.count(bar.count)) jobs" : bar.name
    let title = Self.escaped("\(what), \(bar.owner): \(bar.outcome.rawValue), \(Shown.seconds(bar.end - bar.start))")
    let stroke = bar.outcome == .succeeded ? "" : " stroke=\"\(bar.outcome == .failed ? "#c00" : "#000")\" stroke-width=\"1.5\""
    var text = "<rect x=\"\(x(bar.start))\" y=\"\(number(y + 2))\" width=\"\(number(width))\" height=\"18\" fill=\"\(colour(bar.owner))\""
    text += "\(stroke)><title>\(title)</title></rect>\n"
    let label = bar.count > 1 ? bar.owner : bar.name
    if Double(label.count) * Self.characterWidth + 8 < width {
      text += "<text x=\"\(number(Self.left + bar.start * layout.scale + 4))\" y=\"\(number(y + 15))\">\(Self.escaped(label))</text>\n"
    }
    if bar.outcome == .cancelled { text += cross(Self.left + bar.end * layout.scale, y, "#000", title) }
    return text
  }

  private func label(_ cancellation: TimelineLayout.Cancellation) -> String {
    let what = cancellation.count > 1 ? "\(Shown.count(cancellation.count)) of \(cancellation.owner)" : cancellation.names[0]
    return what.count > 30 ? what.prefix(29) + "…" : what
  }

  private func drawn(_ cancellation: TimelineLayout.Cancellation) -> String {
    let y = Self.top + Double(lanes + cancellation.row) * Self.rowHeight
    let centre = Self.left + cancellation.time * layout.scale
    let names = cancellation.names.joined(separator: ", ")
    let title = Self.escaped("\(names), \(cancellation.owner): cancelled, never ran")
    var text = cross(centre, y, colour(cancellation.owner), title)
    let label = label(cancellation)
    let isAtTheRight = centre + 10 + Double(label.count) * Self.characterWidth > Self.width
    text += "<text x=\"\(number(centre + (isAtTheRight ? -8 : 8)))\" y=\"\(number(y + 15))\""
    text += "\(isAtTheRight ? " text-anchor=\"end\"" : "")>\(Self.escaped(label))</text>\n"
    return text
  }

  private func cross(_ centre: Double, _ y: Double, _ colour: String, _ title: String) -> String {
    "<path d=\"M\(number(centre - 4)) \(number(y + 7))l8 8m0 -8l-8 8\" stroke=\"\(colour)\" stroke-width=\"2\"><title>\(title)</title></path>\n"
  }

  private func drawn(_ instant: (name: String, time: Double), _ bottom: Double) -> String {
    let line = "<path d=\"M\(x(instant.time)) \(Int(Self.top))V\(number(bottom))\" stroke=\"#c00\" stroke-dasharray=\"3 2\"/>"
    let half = Double(instant.name.count) * Self.characterWidth / 2
    let centre = min(max(Self.left + instant.time * layout.scale, half + 4), Self.width - half - 4)
    let label = "<text x=\"\(number(centre))\" y=\"\(number(bottom + 14))\" fill=\"#c00\" text-anchor=\"middle\">"
    return line + label + "\(Self.escaped(instant.name))</text>\n"
  }

  private var legend: String {
    let shown = owners.sorted { $0.value < $1.value }.prefix(Self.mostOwnersInLegend)
    var text = ""
    var x = Self.left
    for (owner, _) in shown {
      let label = owner.count > 24 ? owner.prefix(23) + "…" : owner[...]
      text += "<rect x=\"\(number(x))\" y=\"12\" width=\"10\" height=\"10\" fill=\"\(colour(owner))\"/>"
      text += "<text x=\"\(number(x + 14))\" y=\"21\">\(Self.escaped(String(label)))</text>\n"
      x += 30 + Double(label.count) * Self.characterWidth
    }
    if owners.count > shown.count { text += "<text x=\"\(number(x))\" y=\"21\">and \(owners.count - shown.count) more</text>\n" }
    return text
  }

  // MARK: Numbers, colours, names

  private func x(_ time: Double) -> String { number(Self.left + time * layout.scale) }
  private func number(_ value: Double) -> String { Shown.decimal(value, 1) }

  /// Neighbours differ: the hue goes round by the golden angle. As red, green and blue, which every program that shows SVG knows.
  private func colour(_ owner: String) -> String {
    guard let place = owners[owner] else { return "#888888" }
    let hue = (Double(place) * 137.508).truncatingRemainder(dividingBy: 360) / 60
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
