/// What those who want to hear beforehand are just being told by this thread.
///
/// A handler may change what it is told of. That is not announced once more, or the handler would be called for ever, each time inside of
/// the call before. But those who have not been told yet are, before it is changed.
final class PriorCall {
  private let operation: OwnedOperation
  private let keys: ObservedKeys
  private let values: ObservedValues
  private let registrations: [any ObserverRegistration]
  private var next = 0
  private var outer: PriorCall?

  init(_ operation: OwnedOperation, _ keys: ObservedKeys, _ registrations: [any ObserverRegistration], _ values: ObservedValues) {
    (self.operation, self.keys, self.values) = (operation, keys, values)
    self.registrations = registrations.filter { $0.options.contains(.prior) && !$0.keys.isDisjoint(with: keys) }
  }

  /// Outside locks.
  func perform() {
    outer = ThreadSlot.priorCall.object(PriorCall.self)
    ThreadSlot.priorCall.with(self) { _ = tellRest() }
    outer = nil
  }

  /// - Returns: whether anybody was left.
  private func tellRest() -> Bool {
    let isAnybodyLeft = next < registrations.count
    while next < registrations.count {
      next += 1
      registrations[next - 1].deliverPrior(operation, values)
    }
    return isAnybodyLeft
  }

  /// What of the operation's is being announced.
  static func keys(of operation: OwnedOperation) -> ObservedKeys {
    calls(for: operation).reduce(into: []) { $0.formUnion($1.keys) }
  }

  /// Before these are changed by a handler that is told of them: tells those behind that one.
  /// - Returns: whether anybody was told.
  static func tellRest(of operation: OwnedOperation, _ keys: ObservedKeys) -> Bool {
    var isAnybodyTold = false
    for call in calls(for: operation) where !call.keys.isDisjoint(with: keys) {
      if call.tellRest() { isAnybodyTold = true }
    }
    return isAnybodyTold
  }

  /// The innermost first.
  private static func calls(for operation: OwnedOperation) -> [PriorCall] {
    var calls: [PriorCall] = []
    var next = ThreadSlot.priorCall.object(PriorCall.self)
    while let call = next {
      if call.operation === operation { calls.append(call) }
      next = call.outer
    }
    return calls
  }
}
