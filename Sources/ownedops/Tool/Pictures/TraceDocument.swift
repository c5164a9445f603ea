import Foundation

/// Chrome trace events: a thread for each worker, the owner as category, cancellations as instants. Times in microseconds.
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
    for event in record.events {
      let count = event.count > 1 ? ",\"jobs\":\(event.count)" : ""
      let common =
        "\"pid\":1,\"tid\":\(event.lane ?? lanes),\"name\":\(Self.quoted(event.name)),\"cat\":\(Self.quoted(event.owner)),"
        + "\"ts\":\(microseconds(event.start)),\"args\":{\"owner\":\(Self.quoted(event.owner)),\"outcome\":\"\(event.outcome.rawValue)\"\(count)}"
      if event.lane == nil {
        lines.append("{\"ph\":\"i\",\"s\":\"t\",\(common)}")
      } else {
        lines.append("{\"ph\":\"X\",\"dur\":\(microseconds(event.end - event.start)),\(common)}")
      }
    }
    for instant in record.instants {
      lines.append(
        "{\"ph\":\"i\",\"s\":\"g\",\"pid\":1,\"tid\":0,\"name\":\(Self.quoted(instant.name)),\"ts\":\(microseconds(instant.time))}")
    }
    return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + lines.joined(separator: ",\n") + "\n]}\n"
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
