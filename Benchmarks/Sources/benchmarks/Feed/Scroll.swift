import Foundation

/// Somebody flings a feed of pictures: in each frame some cells leave the screen, and as many come.
///
/// A cell is there for two frames, a thirtieth of a second, and asks for two pictures of a millisecond each. So in each frame 40 cells ask
/// for 80 ms of work, where two processors have 33 ms: more than twice what can be done, and most of what is asked for is not wanted any
/// more when its turn comes.
struct Scroll {
  let cellCount: Int

  static let cellsPerFrame = 40
  static let visibleCells = 80
  private static let frame: UInt64 = 1_000_000_000 / 60

  struct Cost {
    /// Of the whole process, all threads, user and system, until nothing was left to do.
    var cpuSeconds: Double
    /// From the end of the scrolling until all cells that then were on the screen had their pictures.
    var millisecondsToLastVisibleCell: Double
    var decoded: Int
  }

  func run(on engine: some FeedEngine, pictures: PictureLibrary) throws -> Cost {
    let count = DecodeCount()
    let lastVisible = Countdown(from: Self.visibleCells)
    var visible: [Cell] = []
    let cpuBefore = try Self.cpuSeconds()

    let start = DispatchTime.now().uptimeNanoseconds
    for number in 0..<cellCount {
      if number % Self.cellsPerFrame == 0 {
        Self.sleep(until: start + UInt64(number / Self.cellsPerFrame) * Self.frame)
        if visible.count >= Self.visibleCells { visible.removeFirst(Self.cellsPerFrame) }
      }
      let isLast = number >= cellCount - Self.visibleCells
      let cell = Cell(attachment: engine.makeAttachment(), done: isLast ? lastVisible : nil)
      visible.append(cell)
      for picture in 0..<Cell.pictureCount {
        engine.decode(pictures[Cell.pictureCount * number + picture], for: cell, count: count)
      }
    }
    let waited = nanoseconds { lastVisible.wait() }
    visible = []
    engine.waitUntilIdle()
    return Cost(
      cpuSeconds: try Self.cpuSeconds() - cpuBefore, millisecondsToLastVisibleCell: waited / 1_000_000, decoded: count.value)
  }

  private static func sleep(until deadline: UInt64) {
    let now = DispatchTime.now().uptimeNanoseconds
    if deadline > now { usleep(UInt32((deadline - now) / 1000)) }
  }

  private static func cpuSeconds() throws -> Double {
    var time = timespec()
    try WrongResult.check(Int(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)), is: 0, "status of clock_gettime")
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1_000_000_000
  }
}
