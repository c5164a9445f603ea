/// Makes a lifetime for the work that begins in the body, and ends it when the body is over, whichever way.
///
/// ```swift
/// let queue = OwnerScopedQueue()
/// let count = await withOwnerLifetime(name: "import") { lifetime in
///   queue.async(lifetime: lifetime) { print("part of the import") }
///   await queue.finished(ownedBy: lifetime)
///   return 1
/// }
/// print(count)
/// ```
///
/// What has not begun when the body returns or throws never begins: wait in the body for what is to be done. What runs then is cancelled,
/// and not waited for. The lifetime also ends, in the background, when the task is cancelled that the body runs in: as with child tasks.
/// - Parameters:
///   - name: shown in descriptions and error messages.
///   - parent: its end ends the lifetime earlier.
///   - isolation: the caller's, which the body runs in. Leave it out.
///   - body: gets the lifetime. It may hand it on; outside the body it has ended.
/// - Returns: what the body returns.
/// - Throws: what the body throws.
public func withOwnerLifetime<Value, Failure: Error>(
  name: String? = nil, parent: OwnerLifetime? = nil, isolation: isolated (any Actor)? = #isolation,
  _ body: (OwnerLifetime) async throws(Failure) -> Value
) async throws(Failure) -> Value {
  let lifetime = OwnerLifetime(name: name, parent: parent)
  defer { lifetime.end() }
  let result: Result<Value, Failure> = await withTaskCancellationHandler {
    do throws(Failure) {
      return .success(try await body(lifetime))
    } catch {
      return .failure(error)
    }
  } onCancel: {
    // Hooks must not run in here.
    LifetimeReaper.end(lifetime, .requested)
  }
  return try result.get()
}
