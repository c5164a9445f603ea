import Foundation
import Testing

@testable import OwnedOpsTool

/// Timelines and traces.
@Suite(.timeLimit(.minutes(1)))
struct PictureTests {
  @Test func picturesOfAScanAreWellFormed() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    // Enough in each directory for a job of its own.
    for number in 0..<9 { for name in ["a<b", "c\"d"] { try directory.write("\(name)/\(number)", "same") } }
    let outcome = try await ToolBinary.run(["scan", "-q", "--timeline", "t.svg", "--trace", "t.json"], in: directory)
    #expect(outcome.status == 0)
    let trace = try JSONSerialization.jsonObject(with: Data(directory.read("t.json").utf8)) as? [String: Any]
    let events = trace?["traceEvents"] as? [[String: Any]] ?? []
    let names = events.compactMap { $0["ph"] as? String == "X" ? $0["name"] as? String : nil }
    #expect(Set(names) == ["list", "fingerprint", "compare", "summarise"])
    let picture = directory.read("t.svg")
    #expect(picture.hasPrefix("<svg ") && picture.hasSuffix("</svg>\n"))
    #expect(picture.contains("a&lt;b"))
    #expect(!picture.contains("a<b"))
  }

  @Test func aPictureIsSmallHoweverManyJobsThereWere() {
    let recorder = JobRecorder()
    for number in 0..<100_000 {
      let mark = recorder.begin()
      recorder.end(mark, name: "job", owner: "owner \(number % 3)", outcome: number % 50_000 == 7 ? .failed : .succeeded)
    }
    let picture = TimelinePicture(recorder.record).svg
    #expect(picture.utf8.count < 400_000)
    #expect(picture.components(separatedBy: "job, owner 1: failed").count == 2, "those that fail are all there")
    #expect(picture.components(separatedBy: ": failed").count == 3)
  }

  @Test func namesThatXMLForbidsAreShownWithoutWhatItForbids() {
    #expect(TimelinePicture.escaped("a\u{1b}[0m<\u{0}>&\"é") == "a\u{fffd}[0m&lt;\u{fffd}&gt;&amp;&quot;é")
  }

  @Test func ticksAreRoundAndToldApart() {
    #expect(TimelineLayout.ticks(upTo: 0.95).times.map(TimelineLayout.ticks(upTo: 0.95).label).prefix(3) == ["0.0 s", "0.1 s", "0.2 s"])
    #expect(TimelineLayout.ticks(upTo: 0.012).times.map(TimelineLayout.ticks(upTo: 0.012).label).last == "12 ms")
    for last in [1e-6, 0.0037, 0.1, 1, 7, 59, 3600, 86_400] {
      let (times, label) = TimelineLayout.ticks(upTo: last)
      #expect((2...11).contains(times.count), "\(last)")
      #expect(Set(times.map(label)).count == times.count, "\(last)")
      #expect(times.allSatisfy { $0 <= last * 1.000001 })
    }
  }

  // MARK: Paths

  @Test func aPictureThatCannotBeWrittenIsRefusedBeforeAnythingRuns() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("jobs.json", #"{"jobs":[{"name":"a","command":["touch","ran"]}]}"#)
    let run = try await ToolBinary.run(["run", "jobs.json", "--timeline", "new.svg", "--trace", "nowhere/t.json"], in: directory)
    #expect(run.status == 2)
    #expect(run.errors == "ownedops: --trace: can't create nowhere/t.json: No such file or directory\n")
    #expect(!directory.contains("ran") && !directory.contains("new.svg"))
    let scan = try await ToolBinary.run(["scan", "-q", "--trace", "nowhere/t.json"], in: directory)
    #expect(scan.status == 2)
    #expect(scan.errors == "ownedops: --trace: can't create nowhere/t.json: No such file or directory\n")
    #expect(scan.output.isEmpty)
    #if os(Linux)
      // What only writing tells is told at the end.
      let full = try await ToolBinary.run(["run", "jobs.json", "--timeline", "/dev/full"], in: directory)
      #expect(full.status == 1)
      #expect(full.errors == "ownedops: can't write /dev/full: No space left on device\n")
      #expect(full.output.hasSuffix("1 succeeded, 0 failed, 0 cancelled\n"))
    #endif
  }

  @Test func theSameFileForTwoThingsIsRefused() async throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let json = #"{"jobs":[{"name":"a","command":["touch","ran"]}]}"#
    try directory.write("jobs.json", json)
    try directory.write("old.svg", "old")
    #expect(symlink("old.svg", directory.path + "/link.svg") == 0)
    #expect(link(directory.path + "/jobs.json", directory.path + "/other.json") == 0)
    let cases: [([String], String)] = [
      (["--timeline", "new", "--trace", "./new"], "--trace: ./new is the file of --timeline, too; give another"),
      (["--timeline", "old.svg", "--trace", "link.svg"], "--trace: link.svg is the file of --timeline, too; give another"),
      (["--trace", "other.json"], "--trace: other.json is the file of the input, too; give another"),
    ]
    for (arguments, message) in cases {
      let outcome = try await ToolBinary.run(["run", "jobs.json"] + arguments, in: directory)
      #expect(outcome.status == 2)
      #expect(outcome.errors == "ownedops: \(message)\n")
    }
    #expect(!directory.contains("ran") && !directory.contains("new"))
    #expect(directory.read("old.svg") == "old" && directory.read("jobs.json") == json)
    // An old picture goes with its last byte.
    try directory.write("old.svg", String(repeating: "x", count: 100_000))
    #expect(try await ToolBinary.run(["run", "jobs.json", "--timeline", "old.svg"], in: directory).status == 0)
    #expect(directory.read("old.svg").hasSuffix("</svg>\n"))
  }

  // MARK: What is drawn

  @Test func noOwnerIsRed() {
    for place in 0..<500 {
      let colour = Int(TimelinePicture.colour(place).dropFirst(), radix: 16) ?? 0
      let (red, green, blue) = (Double(colour >> 16), Double(colour >> 8 & 255), Double(colour & 255))
      // Within 30 degrees of red both others are below half of what red has above the least.
      let least = min(red, green, blue)
      let isRed = red == max(red, green, blue) && max(green, blue) - least < (red - least) / 2
      #expect(!isRed, "owner \(place): \(TimelinePicture.colour(place))")
    }
    #expect(Set((0..<12).map(TimelinePicture.colour)).count == 12)
  }

  private func event(_ name: String, lane: Int?, _ time: Double, _ outcome: JobRecorder.Outcome) -> JobRecorder.Event {
    JobRecorder.Event(
      name: name, owner: "owner of \(name)", lane: lane, start: time, end: lane == nil ? time : time + 0.1, outcome: outcome)
  }

  @Test func outlinesAndCrossesAreInTheLegendIfThereAreSuch() {
    var record = JobRecorder.Record()
    record.events = [event("a", lane: 0, 0, .succeeded)]
    let plain = TimelinePicture(record).svg
    for label in ["failed", "cancelled while it ran", "never ran"] { #expect(!plain.contains(">\(label)</text>")) }
    record.events += [event("b", lane: 0, 1, .failed), event("c", lane: 1, 1, .cancelled), event("d", lane: nil, 2, .cancelled)]
    let picture = TimelinePicture(record).svg
    #expect(picture.contains(/<rect [^>]*stroke="#c00"[^>]*\/><text [^>]*>failed<\/text>/))
    #expect(picture.contains(/<rect [^>]*stroke="#000"[^>]*\/><text [^>]*>cancelled while it ran<\/text>/))
    #expect(picture.components(separatedBy: ">never ran</text>").count == 3)
  }

  @Test func labelsDoNotCoverEachOtherAndStayInThePicture() throws {
    var record = JobRecorder.Record()
    for number in 0..<40 {
      let name = "A RATHER LONG NAME WITH WIDE LETTERS \(number)"
      record.events.append(event(name, lane: number % 3, Double(number / 3) * 0.1, number % 5 == 0 ? .cancelled : .succeeded))
      record.events.append(event("never \(name)", lane: nil, 1.3 - Double(number % 4) * 0.02, .cancelled))
      record.instants.append(("owner \(number) ended", 1.3 - Double(number % 7) * 0.01))
    }
    let picture = TimelinePicture(record).svg
    let height = try #require(picture.firstMatch(of: /viewBox="0 0 1200 (\d+)"/).flatMap { Double($0.1) })
    var lines: [Double: [ClosedRange<Double>]] = [:]
    var count = 0
    for match in picture.matches(of: /<text x="([0-9.-]+)" y="([0-9.-]+)"([^>]*)>([^<]*)<\/text>/) {
      let x = try #require(Double(match.1))
      let y = try #require(Double(match.2))
      // Narrower than the layout takes it for: touching is not covering.
      let width = TimelineLayout.width(of: String(match.4)) * 0.95
      let start = match.3.contains("middle") ? x - width / 2 : match.3.contains("end") ? x - width : x
      #expect(start >= 0 && start + width <= 1200 && y <= height, "\(match.4)")
      lines[y, default: []].append(start...start + width)
      count += 1
    }
    #expect(count > 60)
    for (y, extents) in lines {
      let sorted = extents.sorted { $0.lowerBound < $1.lowerBound }
      for (left, right) in zip(sorted, sorted.dropFirst()) { #expect(!left.overlaps(right), "at \(y): \(left) \(right)") }
    }
  }
}
