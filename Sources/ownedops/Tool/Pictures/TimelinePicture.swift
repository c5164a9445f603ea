import Foundation

/// An SVG picture: a row for each worker, a bar for each job in the colour of its owner, a cross where a job was cancelled.
struct TimelinePicture {
  private let record: JobRecorder.Record
  private static let width = 1200.0
  private static let left = 90.0
  private static let rowHeight = 22.0
  private static let top = 40.0
  private static let mostOwnersInLegend = 12

  init(_ record: JobRecorder.Record) { self.record = record }

  var svg: String {
    let lanes = (record.events.compactMap(\.lane).max() ?? -1) + 1
    let hasCancelled = record.events.contains { $0.lane == nil }
    let rows = lanes + (hasCancelled ? 1 : 0)
    let last = max(record.events.map(\.end).max() ?? 0, record.instants.map(\.time).max() ?? 0, 1e-6)
    let scale = (Self.width - Self.left - 20) / last
    var owners: [String: Int] = [:]
    for event in record.events where owners[event.owner] == nil { owners[event.owner] = owners.count }
    let height = Self.top + Double(rows) * Self.rowHeight + 60

    var text = """
      <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(Int(Self.width)) \(Int(height))" font-family="sans-serif" font-size="11">
      <rect width="100%" height="100%" fill="white"/>

      """
    text += legend(owners)
    for row in 0..<rows {
      let y = Self.top + Double(row) * Self.rowHeight
      text += "<text x=\"8\" y=\"\(number(y + 15))\">\(row < lanes ? "worker \(row + 1)" : "never ran")</text>\n"
    }
    for event in record.events {
      let x = Self.left + event.start * scale
      let y = Self.top + Double(event.lane ?? lanes) * Self.rowHeight
      let colour = Self.colour(owners[event.owner] ?? 0)
      let width = max((event.end - event.start) * scale, 0.5)
      let title = "\(event.name), \(event.owner): \(event.outcome.rawValue), \(Shown.seconds(event.end - event.start))"
      if event.lane != nil {
        let stroke = event.outcome == .succeeded ? "" : " stroke=\"\(event.outcome == .failed ? "#c00" : "#000")\" stroke-width=\"1.5\""
        text += "<rect x=\"\(number(x))\" y=\"\(number(y + 2))\" width=\"\(number(width))\" height=\"18\" fill=\"\(colour)\"\(stroke)>"
        text += "<title>\(Self.escaped(title))</title></rect>\n"
      }
      if event.outcome == .cancelled {
        let centre = event.lane == nil ? x : x + width
        text += "<path d=\"M\(number(centre - 4)) \(number(y + 7))l8 8m0 -8l-8 8\" stroke=\"\(event.lane == nil ? colour : "#000")\" "
        text += "stroke-width=\"1.5\"><title>\(Self.escaped(title))</title></path>\n"
      }
    }
    let bottom = Self.top + Double(rows) * Self.rowHeight
    for instant in record.instants {
      let x = number(Self.left + instant.time * scale)
      text += "<path d=\"M\(x) \(Int(Self.top))V\(number(bottom))\" stroke=\"#c00\" stroke-dasharray=\"3 2\"/>"
      text += "<text x=\"\(x)\" y=\"\(number(bottom + 12))\" fill=\"#c00\" text-anchor=\"middle\">\(Self.escaped(instant.name))</text>\n"
    }
    for tick in 0...10 {
      let time = last * Double(tick) / 10
      let x = number(Self.left + time * scale)
      text += "<text x=\"\(x)\" y=\"\(number(bottom + 30))\" text-anchor=\"middle\" fill=\"#666\">\(Shown.seconds(time))</text>\n"
    }
    return text + "</svg>\n"
  }

  private func legend(_ owners: [String: Int]) -> String {
    let shown = owners.sorted { $0.value < $1.value }.prefix(Self.mostOwnersInLegend)
    var text = ""
    var x = Self.left
    for (owner, place) in shown {
      let label = owner.count > 24 ? owner.prefix(23) + "…" : owner[...]
      text += "<rect x=\"\(number(x))\" y=\"12\" width=\"10\" height=\"10\" fill=\"\(Self.colour(place))\"/>"
      text += "<text x=\"\(number(x + 14))\" y=\"21\">\(Self.escaped(String(label)))</text>\n"
      x += 30 + Double(label.count) * 6.5
    }
    if owners.count > shown.count { text += "<text x=\"\(number(x))\" y=\"21\">and \(owners.count - shown.count) more</text>\n" }
    return text
  }

  /// Neighbours differ: the hue goes round by the golden angle.
  private static func colour(_ place: Int) -> String {
    let hue = (Double(place) * 137.508).truncatingRemainder(dividingBy: 360)
    return "hsl(\(Int(hue)),60%,\(place % 2 == 0 ? 55 : 68)%)"
  }

  private func number(_ value: Double) -> String { Shown.decimal(value, 1) }

  static func escaped(_ text: String) -> String {
    var result = ""
    for character in text {
      switch character {
      case "<": result += "&lt;"
      case ">": result += "&gt;"
      case "&": result += "&amp;"
      case "\"": result += "&quot;"
      default: result.append(character)
      }
    }
    return result
  }
}
