import Foundation
import Testing

@testable import OwnedOperations

/// Objects on their way back to threads that make others; see `ReturnTray`.
@Suite(.serialized) struct TrayModelTests {
  private final class Spent: Sendable {}

  /// Two slots. Each object is let go of once, whoever comes for it, and whether the timer goes off before, after or meanwhile.
  @Test(arguments: [["put, put, put", "take, take"], ["put, put", "put, take"], ["put", "take", "take all"], ["put, take all", "put"]])
  func eachGoesOnce(_ threads: [String]) {
    ModelExplorer("tray: \(threads.joined(separator: " | "))", earlyTimeouts: 2, timePasses: true).expectNothing(preemptions: 2) { run in
      let gone = ModelFlag()
      let tray = ReturnTray<Spent>(slotCount: 2) { _ in gone.count += 1 }
      let steps = threads.map { $0.components(separatedBy: ", ") }
      run.concurrently(
        zip(threads, steps).map { name, steps in
          (
            name,
            { @Sendable in
              for (turn, step) in steps.enumerated() {
                switch step {
                case "put": tray.put(Spent(), turn: UInt(turn))
                case "take": tray.take(turn: UInt(turn))
                default: tray.takeAll()
                }
              }
            }
          )
        })
      let put = steps.joined().count { $0 == "put" }
      run.wait("the timer") { gone.count >= put }
      run.expect(gone.count == put, "\(gone.count) of \(put) have gone")
    }
  }

  private final class Made: Sendable {
    private let gone: ModelFlag
    init(_ gone: ModelFlag) { self.gone = gone }
    deinit { gone.count += 1 }
  }

  private final class Maker: @unchecked Sendable {  // `found` and `makes` are the baton holder's
    let made = ObjectMadeOnce<Made>()
    let gone = ModelFlag()
    private(set) var found: Set<UnsafeMutableRawPointer> = []
    private(set) var makes = 0

    func make() {
      let object = made.object(madeBy: {
        makes += 1
        return Made(gone)
      })
      found.insert(object.address)
    }

    func look() { if let object = made.object { found.insert(object.address) } }
  }

  /// A tray is made by who needs it first. All find the same one, and what another has made meanwhile goes.
  @Test func allFindTheFirst() {
    ModelExplorer("tray: make | make | look").expectNothing(preemptions: 2) { run in
      let maker = Maker()
      run.concurrently(("one", { maker.make() }), ("other", { maker.make() }), ("look", { maker.look() }))
      run.expect(maker.found.count == 1, "\(maker.found.count) were found")
      run.expect(maker.gone.count == maker.makes - 1, "\(maker.gone.count) of \(maker.makes) have gone")
    }
  }
}
