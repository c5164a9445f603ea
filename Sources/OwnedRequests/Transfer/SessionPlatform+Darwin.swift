#if !canImport(FoundationNetworking)
  import Foundation

  /// How sessions of this platform's Foundation are used.
  enum SessionPlatform {
    /// The session has one of its own here.
    static func makeDelegateQueue(isLimited: Bool) -> (any OperationQueue & SessionBacklog)? { nil }

    /// Whether a session looks for cookies in each line of an answer's head, which takes a quarter of all that a small request costs.
    static let looksForCookiesSlowly = false

    /// Whether a task that is over still waits for the answer to a question of its session.
    static let wantsAnswersAfterEnd = true

    /// Whether a challenge comes when the whole answer has, and nothing comes after it without a credential.
    static let challengesComeLast = false
  }
#endif
