import Foundation

/// Chrome trace events: a thread for each worker, the owner as category, cancellations as instants, dependencies as arrows (flow events).
/// Sorted by time, in microseconds.
struct TraceDocument {
  private let record: JobRecorder.Record

  init(_ record: JobRecorder.Record) { self.record = record }

  var json: String {
    var lines: [String] = []
    let lanes = (record.events.compactMap(\.lane).max() ?? -1) + 1
    for lane in 0...lanes {
      let name = lane < lanes ? "worker \(lane + 1)" : "never ran"
      lines.append("{\"ph\":\"M\",\"pid\":1,\"tid\":\(lane),\"name\":\"thread_name\",\"args\":{\"name\":\"\(name)\"}}")
    }
    var timed: [(time: Double, line: String)] = []
    for event in record.events {
      let common =
        "\"pid\":1,\"tid\":\(event.lane ?? lanes),\"name\":\(Self.quoted(event.name)),\"cat\":\(Self.quoted(event.owner)),"
        + "\"ts\":\(microseconds(event.start)),\"args\":\(arguments(event))"
      if event.lane == nil {
        timed.append((event.start, "{\"ph\":\"i\",\"s\":\"t\",\(common)}"))
      } else {
        timed.append((event.start, "{\"ph\":\"X\",\"dur\":\(microseconds(event.end - event.start)),\(common)}"))
      }
    }
    timed += flows
    for instant in record.instants {
      let line = "{\"ph\":\"i\",\"s\":\"g\",\"pid\":1,\"tid\":0,\"name\":\(Self.quoted(instant.name)),\"ts\":\(microseconds(instant.time))}"
      timed.append((instant.time, line))
    }
    // Those of one time stay in order: a bar comes before the arrows that touch it.
    lines += timed.enumerated().sorted { ($0.element.time, $0.offset) < ($1.element.time, $1.offset) }.map(\.element.line)
    return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + lines.joined(separator: ",\n") + "\n]}\n"
  }

  private func arguments(_ event: JobRecorder.Event) -> String {
    var text = "{\"owner\":\(Self.quoted(event.owner)),\"outcome\":\"\(event.outcome.rawValue)\""
    if event.count > 1 { text += ",\"jobs\":\(event.count)" }
    if !event.command.isEmpty { text += ",\"command\":[\(event.command.map(Self.quoted).joined(separator: ","))]" }
    switch event.exit {
    case .status(let status): text += ",\"status\":\(status)"
    case .signal(let signal): text += ",\"signal\":\(signal)"
    case nil: break
    }
    return text + "}"
  }

  /// From the end of a job to the beginning of each that depends on it, if both ran.
  private var flows: [(time: Double, line: String)] {
    var ran: [String: JobRecorder.Event] = [:]
    for event in record.events where event.lane != nil { ran[event.name] = event }
    var flows: [(time: Double, line: String)] = []
    for event in record.events where event.lane != nil {
      for name in event.after {
        guard let before = ran[name] else { continue }
        let common = "\"pid\":1,\"name\":\"after\",\"cat\":\"dependency\",\"id\":\(flows.count / 2 + 1)"
        // Within the bar that it leaves, which ends where nothing is any more.
        let leaves = max(before.start, min(before.end, event.start) - 1e-6)
        flows.append((leaves, "{\"ph\":\"s\",\"tid\":\(before.lane ?? 0),\"ts\":\(microseconds(leaves)),\(common)}"))
        flows.append((event.start, "{\"ph\":\"f\",\"bp\":\"e\",\"tid\":\(event.lane ?? 0),\"ts\":\(microseconds(event.start)),\(common)}"))
      }
    }
    return flows
  }

  private func microseconds(_ seconds: Double) -> String { Shown.decimal(seconds * 1e6, 3) }

  static func quoted(_ text: String) -> String {
    var result = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": result += "\\\""
      case "\\": result += "\\\\"
      case "\n": result += "\\n"
      default:
        if scalar.value < 0x20 { result += String(format: "\\u%04x", scalar.value) } else { result.unicodeScalars.append(scalar) }
      }
    }
    return result + "\""
  }
}
