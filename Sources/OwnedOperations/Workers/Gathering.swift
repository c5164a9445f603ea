/// Whether it pays to wait for a work item that has come to become several.
///
/// It doesn't if whoever adds has no other to add before that one has run. Examples are two queues whose jobs add to each other, and
/// somebody who adds one and waits.
struct Gathering {
  private static let mostPassed = 32

  /// The batch that comes next has been waited for.
  private var isOn = false
  /// How many times not to wait, after the last vain one; and how many of them are left.
  private var passes = 0
  private var passesLeft = 0

  /// Asked at each look of the same wait.
  mutating func begins() -> Bool {
    if isOn { return true }
    guard passesLeft == 0 else {
      passesLeft -= 1
      return false
    }
    isOn = true
    return true
  }

  /// A batch of so many items has come to its end.
  mutating func note(_ count: Int) {
    if count > 1 {
      (passes, passesLeft) = (0, 0)
    } else if isOn {
      passes = min(Self.mostPassed, passes * 2 + 1)
      passesLeft = passes
    }
    isOn = false
  }
}
