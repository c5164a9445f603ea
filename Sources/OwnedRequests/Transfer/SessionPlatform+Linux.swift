#if canImport(FoundationNetworking)
  import Foundation

  /// How sessions of this platform's Foundation are used.
  enum SessionPlatform {
    /// The delegate queue of a session.
    /// - Parameter isLimited: whether the session has to wait for who deals with what it hands over.
    static func makeDelegateQueue(isLimited: Bool) -> (any OperationQueue & SessionBacklog)? {
      DelegateQueue(limit: isLimited ? DelegateQueue.mostPieces : nil)
    }

    /// Whether a session looks for cookies in each line of an answer's head, which takes a quarter of all that a small request costs.
    static let looksForCookiesSlowly = true

    /// Whether a task that is over still waits for the answer to a question of its session.
    static let wantsAnswersAfterEnd = false

    /// Whether a challenge comes when the whole answer has, and nothing comes after it without a credential.
    static let challengesComeLast = true
  }
#endif
