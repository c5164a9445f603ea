/// What the process ends with.
enum ExitStatus {
  static let success: Int32 = 0
  static let failure: Int32 = 1
  static let badInput: Int32 = 2
  /// Of `scan`: its budget was used up before it was done.
  static let budgetUsedUp: Int32 = 3
  /// Of `scan`: it came to its end, and something could not be read.
  static let unreadable: Int32 = 4
}
