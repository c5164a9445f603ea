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
    ThreadSlot.priorCall.with(self) { tellRest() }
    outer = nil
  }

  private func tellRest() {
    while next < registrations.count {
      next += 1
      registrations[next - 1].deliverPrior(operation, values)
    }
  }

  /// Before the operation is changed by a handler that is told of it: tells those behind that one.
  /// - Returns: what all have been told of.
  static func tellRest(of operation: OwnedOperation) -> ObservedKeys {
    var keys: ObservedKeys = []
    var next = ThreadSlot.priorCall.object(PriorCall.self)
    while let call = next {
      if call.operation === operation {
        keys.formUnion(call.keys)
        call.tellRest()
      }
      next = call.outer
    }
    return keys
  }
}
