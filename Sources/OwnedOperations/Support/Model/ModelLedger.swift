/// Keeps book of what lies in numbered places and is to be taken out once. Who takes something a second time fails the run: a work item
/// that two have begun, or that one has begun and another taken away.
///
/// In any other build it takes no space and no time.
struct ModelLedger: Sendable {
  #if OWNED_OPERATIONS_MODEL
    private final class Book: @unchecked Sendable {  // the baton holder's
      var filled: Set<Int> = []
    }

    private let book = Book()

    func put(_ place: Int) {
      if ModelRun.thread != nil { book.filled.insert(place) }
    }

    func take(_ place: Int, file: StaticString = #fileID, line: UInt = #line) {
      guard let run = ModelRun.current, ModelRun.thread != nil else { return }
      run.expect(book.filled.remove(place) != nil, "a work item is taken, or begun, twice", file: file, line: line)
    }
  #else
    @inline(__always)
    func put(_ place: Int) {}
    @inline(__always)
    func take(_ place: Int) {}
  #endif
}
