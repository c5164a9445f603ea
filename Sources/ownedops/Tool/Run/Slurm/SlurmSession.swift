import Foundation
import OwnedOperations

/// One run of a graph on a cluster, from the first submission until Slurm has nothing of it any more.
///
/// Slurm places, starts, limits and kills. Dependencies between jobs that are with it are its affair, too. Here is what Slurm does not
/// know: owners and their ends, what a failure means for the rest, how many jobs it gets.
///
/// Rules of the session:
/// - All that is decided is decided on one thread, in ``run()``. Others post to the mailbox.
/// - Before it handles what has come it looks whether the journal is still its own. If not, it touches nothing any more.
/// - The run is over when all jobs have ended, nothing is `active`, and no call or answer is outstanding.
///
/// Rules of a job:
/// - It is `waiting`, then `submitting` while `sbatch` is under way or its answer was not heard, then `submitted`.
/// - It has ended when the schedule says so, whatever its phase.
/// - It is `active` from `sbatch` on until Slurm or its status file says that it is over. Window and owners' limits count these.
/// - What is with Slurm is never thought to have ended before that, but for what it comes after. Jobs that can't begin any more end here at
///   once, and are cancelled there.
///
/// Rules of a submission:
/// - Before `sbatch` is called there are: what the wrapper reads, a line in `submissions`, a line in the journal.
/// - `sbatch` is called as a job of the owner, on a queue: when an owner has ended nothing of it is submitted.
/// - One whose answer was not heard is looked up by its comment, in a poll that began after it.
/// - One that is not there is withdrawn and made again. Its name in `ended` keeps it from doing anything, should it come late.
/// - A job that is withdrawn with Slurm is made again together with what comes after it: there that waits for the old one.
///
/// Rules of an end:
/// - First its name is in `ended`, then nothing more is submitted, then `scancel` is called.
/// - `scancel` is called again while a later poll shows that something is there all the same.
///
/// Rules of a successor:
/// - It takes over what the journal says is under way, by the last submission of each job.
/// - Who attaches goes on with the same run. Ends of owners, of jobs and of all still hold: they are in `ended` or in the journal.
/// - Who resumes makes another try: what was kept back by an end of the earlier one is submitted anew.
final class SlurmSession {
  struct Course {
    enum Phase {
      case waiting, submitting, submitted
    }

    var phase = Phase.waiting
    var submission = 0
    var index = 0
    var submissions = 0
    var nodesLost = 0
    /// Submissions that Slurm refused or dropped because of what it comes after, which had succeeded.
    var refusals = 0
    /// Nothing of the graph holds it back.
    var isReady = false
    /// Seen to run.
    var hasBegun = false
    /// Why it is cancelled, running or not.
    var stop: String?
    /// Why it is not to begin.
    var hold: String?
    /// To be submitted anew as soon as what became of its submission is known.
    var isOutdated = false
    /// How many polls had begun when Slurm said that it has it: they don't count.
    var adoptedAfter = 0
    /// When Slurm was last known to have it.
    var seenAt: ContinuousClock.Instant?
    /// It was cancelled while it waited, and Slurm knows no more of it.
    var isDropped = false
    /// Slurm says nothing of it, or that it has ended; and there is no status file.
    var missingSince: ContinuousClock.Instant?

    /// In `ended`: its submission is not to begin.
    var withdrawal: String { "\(submission).\(index)" }
  }

  /// What `attach` knows of the run that it goes on with.
  struct Past {
    /// Those that are with Slurm.
    var submissions: [Int: SlurmFiles.Submission] = [:]
    var underWay: [(place: Int, submission: Int, index: Int, job: Journal.Job)] = []
    /// Those that have ended otherwise than well, and are not to be run again.
    var ends: [Int: JobSchedule.End] = [:]
    var nextSubmission = 0
    /// What has failed stays so, and who has ended: the run goes on, and this is no other try.
    var isSameRun = false
    /// Jobs of the same run that have ended: where their statuses are.
    var statuses: [Int: (submission: Int, index: Int)] = [:]
    /// The marks of its runners.
    var runners: [String] = []
    /// When the processes that owners end with began, in the system's own units, by their numbers.
    var births: [String: String] = [:]

    /// Whether a process of that number is another by now than it was when the run began.
    func isAnother(_ process: pid_t) -> Bool {
      guard let known = births[String(process)], let birth = ProcessFields(of: process)?.birth else { return false }
      return birth != known
    }
  }

  let file: RunFile
  let options: RunOptions
  let slurm: SlurmOptions
  var limits: SlurmLimits
  let files: SlurmFiles
  let journal: RunJournal
  let results: JobResults?
  let counter: RunCounter
  let mailbox = SlurmMailbox()
  /// When the run began, from which the times of owners count; in seconds since 1970.
  let begin: Double
  let workingDirectory: String
  let call: SlurmPrograms.Call
  /// How long a status file is waited for when Slurm says that a job has ended, or knows nothing of it. File systems may be slow to show
  /// it.
  let patience: Duration

  let root = OwnerLifetime(name: "run")
  let owners: [OwnerLifetime]
  let family: RunFamily
  let queue = OwnerScopedQueue(name: "ownedops.slurm", maxConcurrentOperationCount: SlurmSession.mostAtOnce)
  let schedule: JobSchedule
  let watch = OwnerWatch()
  let printer = OutputPrinter { $0.release() }
  let memory = OutputMemory()
  /// Those that come after each job.
  let followers: [[Int32]]
  /// The highest priority in the graph.
  let urgent: Operation.QueuePriority

  /// `sbatch` calls under way at a time.
  static let mostAtOnce = 8
  static let mostRefusals = 5

  var courses: [Course]
  var succeeded: [Bool]
  /// With Slurm, or nearly, and not ended.
  var active: Set<Int> = []
  /// How many of these each owner has.
  var activeOfOwner: [Int]
  /// Those that are not with Slurm and have not ended, among others, in the order in which they are submitted. And the place of each in
  /// that order.
  var unsubmitted: [Int] = []
  var ranks: [Int] = []
  var mustSubmit = true
  var submissions: [Int: SlurmFiles.Submission] = [:]
  var places: [Int: [Int]] = [:]
  var nextSubmission: Int
  /// `sbatch` calls under way.
  var calls: Set<Int> = []
  /// Submissions whose answer was not heard, with the last poll that began before that.
  var doubtful: [Int: Int] = [:]
  /// What the markers of ended owners begin with: of this runner, and of those whose jobs are still there.
  var marks: Set<String>

  var polls = 0
  var isPolling = false
  /// There has been an answer.
  var hasSeenSlurm = false
  var pollInterval = SlurmSession.shortestPoll
  var nextPoll = ContinuousClock.now
  /// Slurm's answers as they were the last time.
  var lastTable: [String: SlurmRow] = [:]
  var heldJobs = SlurmHeldJobs()
  /// Since when there has been no answer.
  var awaySince: ContinuousClock.Instant?

  /// Jobs to be cancelled, by Slurm's names; and those that are to be only if they wait.
  var toCancel: Set<String> = []
  var toHold: Set<String> = []
  var isCancelling = false
  /// How many polls had begun when `scancel` answered last.
  var cancelledAfter = 0
  /// Ended here, and not yet there.
  var leftovers: Set<String> = []

  var arrivals: [Int] = []
  var isArriving = false
  var allHaveEnded = false
  var firstFailure: String?
  var saidJournalFailed = false
  /// Why an owner ended by itself.
  var endings: [Int: String] = [:]
  var interruptions = 0
  var interruptedAt: ContinuousClock.Instant?
  var hasLostLease = false
  /// When something of each kind was said last.
  var lastNotes: [String: ContinuousClock.Instant] = [:]
  let past: Past

  init(
    _ file: RunFile, _ options: RunOptions, _ slurm: SlurmOptions, limits: SlurmLimits, files: SlurmFiles, journal: RunJournal,
    results: JobResults?, begin: Double, past: Past, patience: Duration = .seconds(60),
    call: @escaping SlurmPrograms.Call = { SlurmPrograms.run($0) }
  ) {
    self.file = file
    self.options = options
    self.slurm = slurm
    self.limits = limits
    self.files = files
    self.journal = journal
    self.results = results
    self.begin = begin
    self.past = past
    self.patience = patience
    self.call = call
    workingDirectory = AbsolutePath.current
    counter = RunCounter(total: file.jobs.count, done: journal.resumption.doneCount) { file.jobs[$0].name }
    schedule = JobSchedule(file.jobs, now: nil)
    owners = Self.makeOwners(file.owners, root)
    family = RunFamily(file)
    var followers = Array(repeating: [Int32](), count: file.jobs.count)
    for (place, job) in file.jobs.enumerated() { for other in job.after { followers[other].append(Int32(place)) } }
    self.followers = followers
    urgent = file.jobs.map(\.priority).max { $0.rawValue < $1.rawValue } ?? .normal
    courses = Array(repeating: Course(), count: file.jobs.count)
    succeeded = Array(repeating: false, count: file.jobs.count)
    activeOfOwner = Array(repeating: 0, count: file.owners.count)
    nextSubmission = past.nextSubmission
    submissions = past.submissions
    marks = [journal.mark.text]
  }

  private static func makeOwners(_ specifications: [RunFile.Owner], _ root: OwnerLifetime) -> [OwnerLifetime] {
    var made: [OwnerLifetime?] = Array(repeating: nil, count: specifications.count)
    for place in specifications.indices {
      var line = [place]
      while let last = line.last, let parent = specifications[last].parent, made[parent] == nil { line.append(parent) }
      for place in line.reversed() where made[place] == nil {
        let parent = specifications[place].parent.flatMap { made[$0] }
        made[place] = OwnerLifetime(name: specifications[place].name, parent: parent ?? root)
      }
    }
    return made.compactMap { $0 }
  }

  // MARK: Running

  /// Blocks until every job has ended, or, where that is wanted, as much as possible is submitted.
  func run() -> RunSummary {
    hasLostLease = !journal.isHeld
    if !hasLostLease { start() }
    while !isOver {
      work()
      let events = mailbox.take(within: pause)
      // It may have been asleep, and all files be another's by now.
      guard journal.isHeld else {
        hasLostLease = true
        break
      }
      for event in events { take(event) }
    }
    let (summary, text) = summary()
    if !options.isQuiet, !text.isEmpty, !hasLostLease, !leaves { printer.print(text) }
    return summary
  }

  private func start() {
    let order = file.order
    ranks = Array(repeating: 0, count: file.jobs.count)
    for (rank, place) in order.enumerated() { ranks[place] = rank }
    var outdated: [Int] = []
    for job in past.underWay where adopt(job) { outdated.append(job.place) }
    // When all are known: what comes after them is submitted anew, too.
    for place in outdated { submitAnew(place) }
    unsubmitted = order.filter { courses[$0].phase == .waiting && past.ends[$0] == nil && !journal.resumption.isDone[$0] }
    for (place, status) in past.statuses {
      for attempt in SlurmStatus(path: files.status(status.submission, status.index))?.attempts ?? [] { results?.add(attempt, to: place) }
    }
    let failed = past.ends.filter { if case .failed = $0.value { true } else { false } }.keys.min()
    firstFailure = failed.map { file.jobs[$0].name }
    if failed != nil, !options.keepsGoing { mark("failed") }
    if past.underWay.isEmpty { nextPoll += .seconds(1) }
    for (place, owner) in file.owners.enumerated() {
      guard var condition = owner.end else { continue }
      let reason = condition
      if hasEnded(place, condition) {
        mailbox.post(.ownerEnded(place, reason))
        continue
      }
      if case .after(let time) = condition { condition = .after(time - .seconds(max(0, WallClock.now - begin))) }
      let mailbox = mailbox
      if !watch.add(condition, end: { mailbox.post(.ownerEnded(place, reason)) }) { mailbox.post(.ownerEnded(place, reason)) }
    }
    if past.runners.contains(where: { files.hasEnded("\($0).\(Self.allOwners)") }) {
      Console.shared.noteLater("ownedops: the run was interrupted before: cancelling all that is with Slurm")
      mailbox.post(.interrupted(1))
    }
    follow(schedule.begin(file.jobs))
    watch.start()
    // An owner that has ended already must not see a job submitted.
    for event in mailbox.take(within: 0) { take(event) }
  }

  /// Whether an earlier runner has seen an owner end, or would have.
  private func hasEnded(_ owner: Int, _ condition: RunFile.EndCondition) -> Bool {
    if past.runners.contains(where: { files.hasEnded("\($0).\(Self.mark(ofOwner: owner))") }) { return true }
    if case .process(let process) = condition { return past.isAnother(process) }
    return false
  }

  /// - Returns: whether its runner was about to submit it anew, and did not come to do so. It has not begun, and will not.
  private func adopt(_ job: (place: Int, submission: Int, index: Int, job: Journal.Job)) -> Bool {
    guard schedule.take(job.place), let submission = submissions[job.submission] else { return false }
    courses[job.place].submission = job.submission
    courses[job.place].index = job.index
    courses[job.place].submissions = job.job.attempt
    courses[job.place].seenAt = job.job.submittedAt.map { ContinuousClock.now - .seconds(max(0, WallClock.now - $0)) }
    courses[job.place].phase = submission.identifier == nil ? .submitting : .submitted
    // Nobody is asking: the first poll tells.
    if submission.identifier == nil { doubtful[job.submission] = 0 }
    marks.insert(submission.mark)
    activate(job.place)
    journal.attemptGoesOn()
    if places[job.submission] == nil { places[job.submission] = Array(repeating: -1, count: submission.jobs.count) }
    places[job.submission]?[job.index] = job.place
    return submission.identifier != nil && files.hasEnded(courses[job.place].withdrawal) && status(of: job.place) == nil
  }

  private var isOver: Bool {
    if hasLostLease { return true }
    if allHaveEnded, active.isEmpty, leftovers.isEmpty, calls.isEmpty, doubtful.isEmpty { return true }
    // Who has pressed Ctrl-C twice does not wait for a controller that may never come.
    if interruptions > 1, let since = interruptedAt, ContinuousClock.now - since > .seconds(10) { return true }
    return slurm.detaches && interruptions == 0 && calls.isEmpty && doubtful.isEmpty && toCancel.isEmpty && !isCancelling
      && (!mustSubmit || journal.failure != nil) && awaySince == nil
  }

  private func work() {
    if let failure = journal.failure, !saidJournalFailed {
      saidJournalFailed = true
      for place in courses.indices where courses[place].isReady && !schedule.hasEnded(place) { hold(place, failure) }
    }
    cancelInSlurm()
    submit()
    poll()
  }

  /// Until something has to be done without an event.
  private var pause: Double {
    var pause = 1.0
    if !isPolling, mustPoll { pause = min(pause, (nextPoll - ContinuousClock.now).inSeconds) }
    if mustSubmit, calls.count < Self.mostAtOnce, awaySince == nil, interruptions == 0 { pause = min(pause, 0.5) }
    return pause
  }

  private func take(_ event: SlurmEvent) {
    switch event {
    case .submitted(let submission, let answer): didSubmit(submission, answer)
    case .polled(let number, let answer): didPoll(number, answer)
    case .cancelled(let jobs, let answer): didCancel(jobs, answer)
    case .ownerEnded(let place, let condition): endOwner(place, condition)
    case .interrupted(let count): interrupt(count)
    case .leaseLost: hasLostLease = true
    }
  }

  // MARK: Jobs

  func activate(_ place: Int) {
    guard active.insert(place).inserted else { return }
    if let owner = file.jobs[place].owner { activeOfOwner[owner] += 1 }
  }

  /// It is with Slurm no more.
  func deactivate(_ place: Int) {
    guard active.remove(place) != nil else { return }
    journal.attemptEnded()
    if let owner = file.jobs[place].owner { activeOfOwner[owner] -= 1 }
    mustSubmit = true
  }

  /// Slurm's name for it.
  func identifier(of place: Int) -> String? { submissions[courses[place].submission]?.identifier(of: courses[place].index) }

  /// A job has ended, and what follows from it.
  func end(_ place: Int, _ end: JobSchedule.End) {
    deactivate(place)
    succeeded[place] = end == .succeeded
    if case .failed = end, firstFailure == nil {
      firstFailure = file.jobs[place].name
      if !options.keepsGoing { stopTheRest() }
    }
    mustSubmit = true
    follow(schedule.end(place, end))
  }

  func follow(_ step: JobSchedule.Step) {
    if step.isLast { allHaveEnded = true }
    arrivals += step.ready
    guard !isArriving else { return }
    // Without recursion: chains are as long as they like.
    isArriving = true
    while let place = arrivals.popLast() { arrive(place) }
    isArriving = false
  }

  private func arrive(_ place: Int) {
    courses[place].isReady = true
    if journal.resumption.isDone[place] {
      succeeded[place] = true
      follow(schedule.end(place, .succeeded))
    } else if let end = past.ends[place] {
      follow(schedule.end(place, end))
    } else if let reason = reasonNotToStart(place) {
      hold(place, reason)
    }
  }

  func reasonNotToStart(_ place: Int) -> String? {
    if let failure = journal.failure { return failure }
    guard !options.keepsGoing, !file.jobs[place].runsAlways, let firstFailure else { return nil }
    return "\(firstFailure) has failed"
  }

  /// After a failure what is ready does not begin. Nor will the rest when it gets ready: the wrappers look for that themselves.
  private func stopTheRest() {
    mark("failed")
    for place in courses.indices where courses[place].isReady && !schedule.hasEnded(place) {
      if let reason = reasonNotToStart(place) { hold(place, reason) }
    }
  }

  /// It is not to begin. If it has, it goes on.
  func hold(_ place: Int, _ reason: String) {
    guard !schedule.hasEnded(place) else { return }
    if courses[place].phase == .waiting { return end(place, .cancelled(reason, hasBegun: false)) }
    courses[place].hold = reason
    if let identifier = identifier(of: place) { toHold.insert(identifier) }
  }

  /// All of the run.
  static let allOwners = "all"

  static func mark(ofOwner place: Int) -> String { "o\(place)" }

  /// Nothing of this name begins any more, whichever runner has submitted it.
  func mark(_ name: String) {
    for mark in marks {
      guard let error = files.end("\(mark).\(name)") else { continue }
      Console.shared.noteLater("ownedops: can't write \(files.ended("\(mark).\(name)")): \(RawFile.message(error))")
    }
  }
}
