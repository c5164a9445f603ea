/// A body that this thread is inside of, and that holds its owner.
///
/// Bodies are nested: one posts a notification, observes, or starts an operation by hand, and what is called holds an owner of its own. All
/// of them wait when the innermost does.
///
/// A frame belongs to one thread, which alone reads and writes it. It lies on the thread's stack or with its worker as long as the body
/// runs.
struct OwnerBodyFrame {
  /// Kept by whoever runs the body.
  private let unretainedHold: Borrowed<OwnerHold>
  private let outer: UnsafeMutableRawPointer?
  /// A wait of the thread's has counted the body out, and is to count it in again.
  private var isCountedOut = false

  /// The frame of a body that begins on this thread.
  init(_ hold: Borrowed<OwnerHold>) {
    unretainedHold = hold
    outer = ThreadSlot.ownerBody.pointer
  }

  var hold: OwnerHold { unretainedHold.object }

  // MARK: Entering and leaving

  static func enter(_ frame: UnsafeMutablePointer<OwnerBodyFrame>) {
    ThreadSlot.ownerBody.pointer = UnsafeMutableRawPointer(frame)
  }

  static func leave(_ frame: UnsafeMutablePointer<OwnerBodyFrame>) {
    ThreadSlot.ownerBody.pointer = frame.pointee.outer
  }

  /// Runs a body that holds the owner. The caller keeps the hold.
  static func run<Result>(for hold: OwnerHold, _ body: () throws -> Result) rethrows -> Result {
    var frame = OwnerBodyFrame(Borrowed(hold))
    return try withUnsafeMutablePointer(to: &frame) { pointer in
      enter(pointer)
      defer { leave(pointer) }
      return try body()
    }
  }

  // MARK: Waiting

  static var innermost: UnsafeMutablePointer<OwnerBodyFrame>? {
    ThreadSlot.ownerBody.pointer?.assumingMemoryBound(to: OwnerBodyFrame.self)
  }

  /// The bodies that this thread is inside of and that still count, innermost first.
  static var counted: [UnsafeMutablePointer<OwnerBodyFrame>] {
    var frames: [UnsafeMutablePointer<OwnerBodyFrame>] = []
    var next = innermost
    while let frame = next {
      if !frame.pointee.isCountedOut { frames.append(frame) }
      next = frame.pointee.outer?.assumingMemoryBound(to: OwnerBodyFrame.self)
    }
    return frames
  }

  /// The body waits for work of its owner.
  mutating func countOut() {
    isCountedOut = true
    hold.countOut()
  }

  /// The body has waited.
  mutating func countIn() {
    hold.countIn()
    isCountedOut = false
  }
}
