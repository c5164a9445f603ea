import COwnedOperations

/// Knows which `Protected` objects this thread is inside of: a stack for each thread, in its own storage. Entries are pushed before the
/// object is waited for, and popped after it was left.
enum ProtectedUse {
  /// Before the object's lock is taken.
  static func enter(_ object: AnyObject, by call: StaticString, _ file: StaticString, _ line: UInt) {
    let address = UnsafeRawPointer(Borrowed(object).address)
    if coo_count_of_uses() > 0 { checkNesting(address, object, call, file, line) }
    coo_push_use(coo_use(object: address, call: text(call), file: text(file), line: line))
  }

  /// After the object's lock was left.
  static func leave() { coo_pop_use() }

  @inline(never)
  private static func checkNesting(
    _ address: UnsafeRawPointer, _ object: AnyObject, _ call: StaticString, _ file: StaticString, _ line: UInt
  ) {
    let found = coo_find_use(address)
    if found >= 0 {
      let outer = coo_use_at(found)
      preconditionFailure(
        "\(type(of: object)).\(call) at \(file):\(line) is inside the body of \(name(outer.call)) "
          + "at \(name(outer.file)):\(outer.line), and would wait for it; "
          + "do both in one withState, or call it when that body has returned")
    }
    precondition(
      coo_count_of_uses() < COO_MOST_USES,
      "\(type(of: object)).\(call) at \(file):\(line) is inside bodies of \(COO_MOST_USES) others; nest them less deeply")
  }

  private static func text(_ string: StaticString) -> UnsafePointer<CChar>? {
    string.hasPointerRepresentation ? UnsafeRawPointer(string.utf8Start).assumingMemoryBound(to: CChar.self) : nil
  }

  private static func name(_ text: UnsafePointer<CChar>?) -> String { text.map { String(cString: $0) } ?? "?" }
}
