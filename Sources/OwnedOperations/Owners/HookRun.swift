/// Runs hooks on the thread that ends an owner, and keeps ends that nest in hooks from nesting too deep.
///
/// A hook may end another owner, whose hook ends the next, and so on. A line of a million owners would need a million frames on the stack.
/// Up to `depthLimit` they nest, so that the hooks have run when `end()` returns. Beyond it, they wait for the outermost.
final class HookRun {
  private static let depthLimit = 32

  private var depth = 0
  private var waiting: [() -> Void] = []

  static func perform(_ body: @escaping () -> Void) {
    if let outermost = ThreadSlot.hookRun.object(HookRun.self) {
      outermost.nest(body)
      return
    }
    let run = HookRun()
    ThreadSlot.hookRun.with(run) {
      run.nest(body)
      run.performWaiting()
    }
  }

  private func nest(_ body: @escaping () -> Void) {
    guard depth < Self.depthLimit else {
      waiting.append(body)
      return
    }
    depth += 1
    body()
    depth -= 1
  }

  /// What one waiting body leaves behind goes to the end of the line, for as long as there is one.
  private func performWaiting() {
    while !waiting.isEmpty {
      let bodies = waiting
      waiting = []
      for body in bodies { nest(body) }
    }
  }
}
