import Dispatch

extension DispatchQueue {
  /// Runs the body on the main actor, through `DispatchQueue.main`, with an owner that need not be Sendable: a controller that lives on the
  /// main actor. Unless it has ended by then.
  ///
  /// ```swift
  /// final class Controller {  // not Sendable
  ///   var title = ""
  /// }
  ///
  /// @MainActor func show(_ controller: Controller) {
  ///   DispatchQueue.onMain(owner: controller) { controller in controller.title = "later" }
  /// }
  /// ```
  ///
  /// The owner is held weakly until the body runs, and strongly while it runs; it is touched on the main thread only. The body must not
  /// capture the owner: it gets it. When the owner ends, the body and all it captures are released in the background, at once. Constant
  /// time.
  /// - Parameters:
  ///   - owner: the object whose end cancels the body.
  ///   - qos: as for GCD's own `async`.
  ///   - flags: as for GCD's own `async`.
  ///   - body: called at most once, on the main thread.
  @MainActor
  public static func onMain<Owner: AnyObject>(
    owner: Owner, qos: DispatchQoS = .unspecified, flags: DispatchWorkItemFlags = [], execute body: @escaping @MainActor (Owner) -> Void
  ) {
    runOnMain(owner, qos, flags, body)
  }

  /// Runs the body on the main actor, through `DispatchQueue.main`, with an owner that is Sendable, such as one whose class is
  /// `@MainActor`. From any thread.
  ///
  /// ```swift
  /// @MainActor final class Model {
  ///   var title = ""
  /// }
  ///
  /// func loaded(_ title: String, for model: Model) {
  ///   DispatchQueue.onMain(owner: model) { model in model.title = title }
  /// }
  /// ```
  ///
  /// The owner is held weakly until the body runs, and strongly while it runs; it is released on the main thread. The body must not capture
  /// the owner: it gets it. When the owner ends, the body and all it captures are released in the background, at once.
  /// - Parameters:
  ///   - owner: the object whose end cancels the body.
  ///   - qos: as for GCD's own `async`.
  ///   - flags: as for GCD's own `async`.
  ///   - body: called at most once, on the main thread.
  /// - Complexity: constant on average.
  public static func onMain<Owner: AnyObject & Sendable>(
    owner: Owner, qos: DispatchQoS = .unspecified, flags: DispatchWorkItemFlags = [], execute body: @escaping @MainActor (Owner) -> Void
  ) {
    runOnMain(owner, qos, flags, body)
  }

  private static func runOnMain<Owner: AnyObject>(
    _ owner: Owner, _ qos: DispatchQoS, _ flags: DispatchWorkItemFlags, _ body: @escaping @MainActor (Owner) -> Void
  ) {
    let lifetime = OwnerLifetime.of(owner as AnyObject)
    guard lifetime.isAlive else { return }
    let place = BlockPlace.queue(DispatchPlace(queue: .main, qos: qos, flags: flags))
    let block = PendingBlock(lifetime, OwnerHold.of(owner, lifetime), at: place, ErasedOwnerBody.erase(onMain: body))
    DispatchQueue.main.submit(block, qos: qos, flags: flags)
    block.wasSubmitted()
  }
}
