/// Why a request did not bring what was asked for, with all that the server said. Status, headers and URL are in ``head``, the body in
/// ``error``.
///
/// ```swift
/// let client = RequestClient(baseURL: URL(string: "https://example.com"))
/// do {
///   let response = try await client.response(to: Request(.get, "news"), lifetime: .process, decoding: .string, throwing: RequestFailure.self)
///   print(response.value)
/// } catch {
///   if case .status(429, _) = error.error { print("busy until", error.head?.headers["Retry-After"] ?? "later") }
/// }
/// ```
public struct RequestFailure: Error, Sendable {
  /// What went wrong.
  public let error: RequestError
  /// What the server said last; nil if it didn't.
  public let head: ResponseHead?
}

extension RequestFailure: CustomStringConvertible {
  /// The ``error``'s description.
  public var description: String { error.description }
}
