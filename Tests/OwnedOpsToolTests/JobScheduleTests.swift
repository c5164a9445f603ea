import Foundation
import Testing

@testable import OwnedOpsTool

/// What may begin when, without processes: by the graph, and by what the machine and owners allow.
@Suite(.timeLimit(.minutes(1)))
struct JobScheduleTests {
  private func file(_ jobs: [String], owners: String = "") throws -> RunFile {
    try RunFile(Data("{\(owners)\"jobs\":[\(jobs.joined(separator: ","))]}".utf8), source: "test")
  }

  private func job(_ name: String, after: [String] = [], more: String = "") -> String {
    let after = after.isEmpty ? "" : ",\"after\":[\(after.map { "\"\($0)\"" }.joined(separator: ","))]"
    return "{\"name\":\"\(name)\",\"command\":[\"true\"]\(after)\(more.isEmpty ? "" : "," + more)}"
  }

  // MARK: The graph

  @Test func aJobIsReadyOnceWhenAllThatItComesAfterHasSucceeded() throws {
    let file = try file([job("c", after: ["a", "b"]), job("a"), job("b"), job("d", after: ["c"])])
    let schedule = JobSchedule(file.jobs, now: nil)
    #expect(schedule.begin(file.jobs).ready == [1, 2])
    #expect(schedule.take(1) && !schedule.take(1))
    #expect(schedule.end(1, .succeeded).ready.isEmpty)
    // What comes second is passed over.
    #expect(schedule.end(1, .failed("late")).ready.isEmpty && schedule.ends[1] == .succeeded)
    #expect(schedule.end(2, .succeeded).ready == [0])
    #expect(schedule.end(0, .succeeded).ready == [3])
    let last = schedule.end(3, .succeeded)
    #expect(last.isLast && last.ready.isEmpty)
    #expect(!schedule.end(3, .succeeded).isLast && schedule.cancellationTime(of: 3) == nil)
  }

  @Test func whatComesAfterAFailureEndsWithItButForWhatRunsAlways() throws {
    let file = try file([
      job("bad"), job("slow"), job("next", after: ["bad", "slow"]), job("tidy", after: ["next"], more: #""when":"always""#),
      job("other", after: ["bad", "slow"], more: #""when":"always""#), job("last", after: ["next", "tidy"]),
    ])
    let schedule = JobSchedule(file.jobs, now: nil)
    #expect(schedule.end(0, .failed("r")).ready == [3])
    #expect(schedule.ends == [.failed("r"), nil, .blocked(0), nil, nil, .blocked(2)])
    #expect(schedule.end(1, .succeeded).ready == [4])
    #expect(!schedule.end(3, .succeeded).isLast)
    #expect(schedule.end(4, .succeeded).isLast)
  }

  @Test func whatWaitsIsCancelledForOneReasonAndWhatIsTakenIsLeftAlone() throws {
    let always = #""when":"always""#
    let file = try file([job("a"), job("b"), job("c", after: ["a"]), job("d", after: ["c"]), job("e", after: ["d"], more: always)])
    let clock = Guarded(0.0)
    let schedule = JobSchedule(file.jobs) { clock.withLock { $0 } }
    #expect(schedule.take(0))
    clock.withLock { $0 = 7 }
    let step = schedule.cancel { $0 < 4 ? "r" : nil }
    #expect(step.ready == [4] && !step.isLast && schedule.hasEnded(1) && !schedule.hasEnded(0))
    let cancelled = JobSchedule.End.cancelled("r", hasBegun: false)
    #expect(schedule.ends == [nil, cancelled, cancelled, cancelled, nil])
    #expect(schedule.cancellationTime(of: 3) == 7)
    #expect(!schedule.take(1) && schedule.begin(file.jobs).ready == [0])
    #expect(schedule.end(0, .succeeded).ready.isEmpty)
    #expect(schedule.end(4, .succeeded).isLast && !schedule.cancel { _ in "late" }.isLast)
  }

  @Test func chainsAreAsLongAsTheyLike() {
    let count = 100_000
    let command = ChildProcess.Command(words: ["true"])
    let jobs = (0..<count).map { RunFile.Job(name: "\($0)", after: $0 == 0 ? [] : [$0 - 1], command: command) }
    let schedule = JobSchedule(jobs, now: nil)
    #expect(schedule.end(0, .failed("r")).isLast)
    #expect(schedule.ends.last == .blocked(count - 2))
  }

  // MARK: Admission

  private func admission(
    _ file: RunFile, processors: Int = 2, memory: Int = 100, mostLoad: Double? = nil, load: @escaping @Sendable () -> Double = { 0 }
  ) -> JobAdmission {
    JobAdmission(file, JobAdmission.Share(processors: processors, memory: memory), mostLoad: mostLoad, load: load)
  }

  /// All that may come in now.
  private func next(_ admission: inout JobAdmission, unless isOver: (Int) -> Bool = { _ in false }) -> [Int] {
    var places: [Int] = []
    while let place = admission.next(unless: isOver) { places.append(place) }
    return places
  }

  @Test func theMostUrgentComesInFirstAndThenWhoWasFirst() throws {
    let file = try file([
      job("a"), job("b"), job("low", more: #""priority":"low""#), job("urgent", more: #""priority":"veryHigh""#),
      job("lowest", more: #""priority":"veryLow""#),
      job("high", more: #""priority":"high""#),
    ])
    var admission = admission(file, processors: 1)
    for place in file.jobs.indices { admission.arrive(place) }
    var order: [Int] = []
    while let place = admission.next(unless: { _ in false }) {
      #expect(admission.next { _ in false } == nil)
      order.append(place)
      admission.giveBack(place)
    }
    #expect(order == [3, 5, 0, 1, 2, 4])
  }

  @Test func nobodyGetsMoreThanThereIsAndNobodyOvertakesTheFirst() throws {
    let file = try file([
      job("one"), job("two", more: #""cpus":2"#), job("small", more: #""memory":"60""#), job("large", more: #""memory":"60""#),
      job("huge", more: #""cpus":9,"memory":"1G""#),
    ])
    var admission = admission(file)
    for place in file.jobs.indices { admission.arrive(place) }
    #expect(next(&admission) == [0])
    admission.giveBack(0)
    #expect(next(&admission) == [1])
    admission.giveBack(1)
    // There are two processors, and memory for one of them.
    #expect(next(&admission) == [2])
    admission.giveBack(2)
    #expect(next(&admission) == [3])
    admission.giveBack(3)
    #expect(next(&admission) == [4])
    admission.arrive(0)
    #expect(next(&admission).isEmpty)
    // One that has been cancelled in the line holds nobody up.
    admission.giveBack(4)
    admission.arrive(4)
    #expect(next(&admission) == [0])
    admission.arrive(0)
    #expect(next(&admission) { $0 == 4 } == [0])
  }

  @Test func anOwnersJobsAreLimitedAlsoWhenSomeAreCancelledInTheLine() throws {
    let owners = #""owners":[{"name":"o","maxConcurrent":1},{"name":"p"}],"#
    let file = try file((0..<4).map { job("\($0)", more: #""owner":"o""#) } + [job("free", more: #""owner":"p""#)], owners: owners)
    var admission = admission(file)
    for place in file.jobs.indices { admission.arrive(place) }
    #expect(next(&admission) == [0, 4])
    admission.giveBack(0)
    #expect(next(&admission) { $0 == 1 || $0 == 2 } == [3])
    admission.giveBack(4)
    admission.giveBack(3)
    admission.arrive(1)
    admission.arrive(2)
    #expect(next(&admission) == [1])
  }

  @Test func aLoadAboveTheLimitLetsNobodyInBesideOthers() throws {
    let file = try file([job("a"), job("b"), job("c")])
    let load = Guarded(5.0)
    var admission = admission(file, processors: 3, mostLoad: 4) { load.withLock { $0 } }
    for place in file.jobs.indices { admission.arrive(place) }
    #expect(next(&admission) == [0] && admission.isHeldByLoad)
    load.withLock { $0 = 3.9 }
    #expect(next(&admission) == [1, 2] && !admission.isHeldByLoad)
    load.withLock { $0 = 5 }
    admission.arrive(0)
    for place in [0, 1, 2] { admission.giveBack(place) }
    #expect(next(&admission) == [0])
  }
}
