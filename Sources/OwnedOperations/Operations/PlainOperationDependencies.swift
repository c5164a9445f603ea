import Foundation

/// What a plain operation depends on, as far as the platform asks for care with it.
struct PlainOperationDependencies {
  let operation: Operation

  init(of operation: Operation) { self.operation = operation }
}
