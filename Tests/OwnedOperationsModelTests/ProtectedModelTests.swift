import Foundation
import Testing

@testable import OwnedOperations

/// State that many read and few write.
@Suite(.serialized) struct ProtectedModelTests {
  /// Who is inside.
  final class Inside: @unchecked Sendable {  // the baton holder's
    let state = Protected(0)
    let run: ModelRun
    private var readers = 0
    private var writers = 0
    private let place = Atomic<Int>(0)
    private let book = ModelObject("inside")

    init(_ run: ModelRun) { self.run = run }

    func read() {
      state.read { _ in
        ModelRun.note(book)
        readers += 1
        run.expect(writers == 0, "somebody reads beside a writer")
        place.add(1, ordering: .relaxed)
        ModelRun.note(book)
        run.expect(writers == 0, "somebody writes beside a reader")
        readers -= 1
      }
    }

    func write() {
      state.write { value in
        ModelRun.note(book)
        writers += 1
        run.expect(readers == 0 && writers == 1, "somebody writes who is not alone")
        place.add(1, ordering: .relaxed)
        ModelRun.note(book)
        run.expect(readers == 0 && writers == 1, "somebody comes while one writes")
        value += 1
        writers -= 1
      }
    }
  }

  private static func explore(_ threads: [String], preemptions: Int) {
    ModelExplorer("protected: " + threads.joined(separator: " | ")).expectNothing(preemptions: preemptions) { run in
      let inside = Inside(run)
      run.concurrently(
        threads.map { calls in
          (
            calls,
            {
              for call in calls.split(separator: ", ") { if call == "read" { inside.read() } else { inside.write() } }
            }
          )
        })
      let writes = threads.joined(separator: ", ").components(separatedBy: "write").count - 1
      run.expect(inside.state.read { $0 } == writes, "a write is lost")
      run.expect(inside.state.lock.waitingReaders == 0, "readers are counted as waiting")
    }
  }

  @Test(arguments: [["read", "write"], ["read, read", "write"], ["read", "write, write"], ["write", "write"]])
  func everyTwo(_ threads: [String]) { Self.explore(threads, preemptions: 3) }

  /// Such as the queue for late writes.
  @Test func anObjectIsMadeOnce() {
    ModelExplorer("protected: an object that is made when it is needed: ask | ask").expectNothing(preemptions: 2) { run in
      final class Objects: @unchecked Sendable {  // the baton holder's
        var all: [ModelFlag] = []
      }
      let (lazy, objects) = (LazyObject(), Objects())
      let ask: @Sendable () -> Void = { objects.all.append(lazy.object { ModelFlag() }) }
      run.concurrently(("one", ask), ("other", ask))
      run.expect(objects.all.count == 2 && objects.all[0] === objects.all[1], "two were made")
    }
  }

  @Test(arguments: [["read", "read", "write"], ["read", "write", "write"]])
  func someThree(_ threads: [String]) { Self.explore(threads, preemptions: 2) }
}
