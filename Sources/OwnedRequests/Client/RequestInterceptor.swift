import Foundation

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// Whether a request that failed is sent again.
public enum RetryDecision: Sendable, Hashable {
  /// As the request's ``RetryPolicy`` has it.
  case asUsual
  /// Now, whatever the policy says.
  case retry
  /// After this much time, whatever the policy says.
  case retryAfter(Duration)
  /// No more, whatever the policy says.
  case fail
}

/// Sees every request of a client before it is sent, and every failure: signs, adds credentials, refreshes a token.
///
/// ```swift
/// struct Signature: RequestInterceptor {
///   func adapt(_ request: URLRequest) async throws -> URLRequest {
///     var request = request
///     request.setValue("secret", forHTTPHeaderField: "Authorization")
///     return request
///   }
/// }
/// ```
///
/// Calls come from tasks that are cancelled with the request, and hold no place in a host's limit. The time that ``adapt(_:)`` takes before
/// the first attempt counts towards no limit of the request's. One that never returns leaves the request to its owner's end.
public protocol RequestInterceptor: Sendable {
  /// Called before each attempt, in the order of the client's ``RequestClient/interceptors``. What it throws fails the request with
  /// ``RequestError/interceptor(_:)``. The body can't be changed here.
  func adapt(_ request: URLRequest) async throws -> URLRequest

  /// Called after each attempt that failed. The first interceptor that answers anything but ``RetryDecision/asUsual`` decides.
  /// - Parameters:
  ///   - error: why it failed.
  ///   - head: what the server said; nil if it didn't.
  ///   - attempt: 1 for the first.
  func decision(after error: RequestError, head: ResponseHead?, attempt: Int) async -> RetryDecision
}

extension RequestInterceptor {
  /// Sends the request as it is.
  public func adapt(_ request: URLRequest) async throws -> URLRequest { request }
  /// Leaves the decision to the request's own policy.
  public func decision(after error: RequestError, head: ResponseHead?, attempt: Int) async -> RetryDecision { .asUsual }
}
