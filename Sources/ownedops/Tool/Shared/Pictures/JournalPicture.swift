import Foundation

/// What a journal knows, as pictures have it: times from its first event on, each job on the lowest worker that was free.
enum JournalPicture {
  /// - Parameter since: what was neither submitted nor ended after it is left out; in seconds since 1970.
  static func record(of journal: Journal, since: Double = -.infinity) -> JobRecorder.Record {
    var record = JobRecorder.Record()
    let jobs = journal.jobs.filter { job in
      [job.submittedAt, job.startedAt, job.endedAt].contains { $0.map { $0 >= since } ?? false }
    }
    let ran = jobs.filter { $0.startedAt != nil }.sorted { ($0.startedAt ?? 0) < ($1.startedAt ?? 0) }
    let origin = ran.first?.startedAt ?? journal.time
    let last = max(journal.runs.last?.lastTime ?? origin, ran.compactMap(\.endedAt).max() ?? origin)
    var freeFrom: [Double] = []
    for job in ran {
      guard let start = job.startedAt else { continue }
      // What has no end runs to the end of the picture.
      let end = max(job.endedAt ?? last, start)
      let lane = freeFrom.firstIndex { $0 <= start } ?? freeFrom.count
      if lane == freeFrom.count { freeFrom.append(end) } else { freeFrom[lane] = end }
      record.events.append(event(job, lane: lane, start: start - origin, end: end - origin))
    }
    for job in jobs where job.startedAt == nil && job.state == .cancelled {
      let time = max(0, (job.endedAt ?? last) - origin)
      record.events.append(event(job, lane: nil, start: time, end: time))
    }
    for run in journal.runs.dropFirst() where run.start >= origin { record.instants.append(("resumed", run.start - origin)) }
    return record
  }

  private static func event(_ job: Journal.Job, lane: Int?, start: Double, end: Double) -> JobRecorder.Event {
    var event = JobRecorder.Event(
      name: job.definition.name, owner: job.definition.owner ?? "run", lane: lane, start: start, end: end,
      outcome: job.hasSucceeded ? .succeeded : job.state == .failed || job.state == .exited ? .failed : .cancelled)
    event.after = job.definition.after
    event.command = job.definition.command
    event.exit = job.exit?.exit
    return event
  }
}
