import Foundation
import Synchronization
import Testing

@testable import OwnedOperations

/// A thread looks before it sleeps where its sleeps are short and its looks find what they look for.
@Suite struct AdaptiveSpinTests {
  private static let short: UInt64 = 20_000
  private static let long: UInt64 = 1_000_000

  private func history(afterShortSleeps count: Int) -> AdaptiveSpin.History {
    var history = AdaptiveSpin.History()
    for _ in 0..<count { history.noteSleep(Self.short) }
    return history
  }

  @Test func aThreadThatHasNotSleptDoesNotLook() { #expect(AdaptiveSpin.History().looks == 0) }

  @Test func eightShortSleepsInARowAreWorthALook() {
    #expect(history(afterShortSleeps: 7).looks == 0)
    #expect(history(afterShortSleeps: 8).looks == 1)
  }

  @Test func aLongSleepBeginsTheRowAnew() {
    var history = history(afterShortSleeps: 7)
    history.noteSleep(Self.long)
    history.noteSleep(Self.short)
    #expect(history.looks == 0)
  }

  @Test func aLongSleepEndsTheLooks() {
    var history = history(afterShortSleeps: 8)
    history.noteLook(found: true)
    #expect(history.looks == 2)
    history.noteSleep(Self.long)
    #expect(history.looks == 0)
  }

  @Test func looksInVainBecomeRare() {
    var history = AdaptiveSpin.History()
    var looks = 0
    for _ in 0..<800 {
      if history.looks > 0 {
        looks += 1
        history.noteLook(found: false)
      }
      history.noteSleep(Self.short)
    }
    #expect(looks == 99)  // one for eight sleeps, the first after eight
  }

  @Test func looksThatFindGoOn() {
    var history = history(afterShortSleeps: 8)
    for _ in 0..<100 { history.noteLook(found: true) }
    #expect(history.looks == 4)
    for _ in 0..<4 { history.noteLook(found: false) }
    #expect(history.looks == 0)
  }

  /// On threads of their own, whose history is their own.
  @Test func aLookEndsWhenItFindsOrWhenItsTimeIsUp() async {
    let (found, vain, unarmed) = await withCheckedContinuation { continuation in
      Thread.detachNewThread {
        var asked = 0
        let unarmed = AdaptiveSpin.ofWaits.look {
          asked += 1
          return false
        }
        let askedUnarmed = asked
        var found = false
        asked = 0
        // A thread that loses its processor has slept for long, and doesn't look.
        for _ in 0..<1_000 where asked == 0 {
          for _ in 0..<8 { AdaptiveSpin.ofWaits.sleep {} }
          found = AdaptiveSpin.ofWaits.look {
            asked += 1
            return asked == 3
          }
        }
        let vain = AdaptiveSpin.ofWaits.look { false }
        continuation.resume(returning: (found && asked == 3, vain, unarmed || askedUnarmed > 0))
      }
    }
    #expect(found)
    #expect(!vain)
    #expect(!unarmed)
  }
}
