import Foundation
import Testing

@testable import OwnedOperations

@Suite struct OwnerIDTests {
  @Test func identifiersAreNeverReused() {
    let count = 20_000
    var seen = Set<OwnerID>()
    for _ in 0..<count { seen.insert(OwnerLifetime().id) }
    #expect(seen.count == count)
  }

  @Test func identifiersIssuedOnManyThreadsDiffer() {
    let journal = Journal<[OwnerID]>()
    DispatchQueue.concurrentPerform(iterations: 8) { _ in
      journal.write((0..<5_000).map { _ in OwnerLifetime().id })
    }
    #expect(Set(journal.entries.joined()).count == 40_000)
  }

  @Test func livenessIsKnownWithoutTheObject() {
    var owner: TokenOwner? = TokenOwner()
    let id = owner!.ownerID
    #expect(OwnerLifetime.isAlive(id))
    owner = nil
    #expect(!OwnerLifetime.isAlive(id))
  }

  @Test func identifiersThatWereNeverIssuedAreNotAlive() {
    #expect(!OwnerLifetime.isAlive(OwnerID(rawValue: 0)))
    #expect(!OwnerLifetime.isAlive(OwnerID(rawValue: .max)))
  }

  @Test func livenessKeepsNoPageOfEndedOwners() {
    let registry = OwnerIDRegistry()
    let survivor = registry.issue()
    for _ in 0..<1_000_000 {
      let (id, page) = registry.issue()
      OwnerIDRegistry.markEnded(id, on: page, in: registry)
    }
    #expect(registry.isAlive(survivor.0))
    #expect(registry.pageCount == 2, "the survivor's page and the newest one")
  }

  @Test func descriptionsNameTheOwner() {
    let owner = TokenOwner(name: "feed")
    #expect("\(owner.ownerID)" == "owner#\(owner.ownerID.rawValue)")
    #expect("\(owner.lifetime)" == "owner#\(owner.ownerID.rawValue) \"feed\"")
    #expect(owner.lifetime.name == "feed")
  }
}

@Suite struct OwnerLifetimeTests {
  @Test func ownersEndWithTheirToken() {
    var owner: TokenOwner? = TokenOwner()
    let lifetime = OwnerLifetime.of(owner!)
    #expect(lifetime.isAlive)
    #expect(lifetime === owner!.lifetime)
    owner = nil
    #expect(!lifetime.isAlive)
    #expect(lifetime.endReason == .tokenReleased)
  }

  @Test func lifetimesDoNotKeepTheirOwnerAlive() {
    var owner: TokenOwner? = TokenOwner()
    let lifetime = owner!.lifetime
    weak let seen = owner
    #expect(lifetime.bind(owner!))
    owner = nil
    #expect(seen == nil)
    if case .gone? = lifetime.ownerHold?.begin() {} else { Issue.record("the owner has gone") }
  }

  @Test func endIsIdempotentAndHooksRunOnceInOrder() {
    let lifetime = OwnerLifetime()
    let journal = Journal<Int>()
    for number in 0..<5 { lifetime.onEnd { _ in journal.write(number) } }
    lifetime.end()
    lifetime.end()
    #expect(journal.entries == [0, 1, 2, 3, 4])
    #expect(lifetime.endReason == .requested)
  }

  @Test func hooksGetTheIdentifierAndRunOnTheEndingThread() {
    let lifetime = OwnerLifetime()
    let thread = ObjectIdentifier(Thread.current)
    let journal = Journal<(OwnerID, Bool)>()
    lifetime.onEnd { journal.write(($0, ObjectIdentifier(Thread.current) == thread)) }
    lifetime.end()
    #expect(journal.entries.count == 1)
    #expect(journal.entries[0].0 == lifetime.id)
    #expect(journal.entries[0].1)
  }

  @Test func hooksOnAnEndedLifetimeRunAtOnce() {
    let lifetime = OwnerLifetime()
    lifetime.end()
    let journal = Journal<OwnerID>()
    let hook = lifetime.onEnd { journal.write($0) }
    #expect(journal.entries == [lifetime.id])
    #expect(!hook.isPending)
  }

  @Test func cancelledHooksNeverRunAndReleaseTheirClosure() {
    let lifetime = OwnerLifetime()
    let journal = Journal<Int>()
    var captured: TokenOwner? = TokenOwner()
    weak let seen = captured
    let hook = lifetime.onEnd { [captured] _ in
      _ = captured
      journal.write(1)
    }
    captured = nil
    #expect(seen != nil)
    hook.cancel()
    #expect(seen == nil)
    lifetime.end()
    #expect(journal.entries.isEmpty)
  }

  @Test func hooksReleaseTheirClosureWhenTheyHaveRun() {
    let lifetime = OwnerLifetime()
    var captured: TokenOwner? = TokenOwner()
    weak let seen = captured
    let hook = lifetime.onEnd { [captured] _ in _ = captured }
    captured = nil
    lifetime.end()
    #expect(seen == nil)
    #expect(!hook.isPending)
  }

  @Test func addingAndCancellingForEverKeepsNoHook() {
    let lifetime = OwnerLifetime()
    let kept = (0..<1_000).map { _ in lifetime.onEnd { _ in } }
    for _ in 0..<200_000 { lifetime.onEnd { _ in }.cancel() }
    #expect(lifetime.hookCapacity <= 8_192)
    #expect(kept.allSatisfy { $0.isPending })
  }

  @Test func hooksMayAddCancelEndAndRelease() {
    let lifetime = OwnerLifetime()
    let other = OwnerLifetime()
    let journal = Journal<String>()
    nonisolated(unsafe) var owner: TokenOwner? = TokenOwner()  // only touched by the hook, on this thread
    owner!.lifetime.onEnd { _ in journal.write("owner") }
    other.onEnd { _ in journal.write("other") }
    let later = Mutexed<OwnerHook?>(nil)
    lifetime.onEnd { _ in
      lifetime.onEnd { _ in journal.write("added") }
      later.value?.cancel()
      other.end()
      owner = nil
      lifetime.end()
      journal.write("first")
    }
    later.value = lifetime.onEnd { _ in journal.write("cancelled by the first") }
    lifetime.onEnd { _ in journal.write("last") }
    lifetime.end()
    #expect(journal.entries == ["added", "other", "owner", "first", "last"])
  }

  @Test func longLinesOfOwnersHeldByHooksDoNotOverflowTheStack() {
    let count = Sanitizer.many(200_000)
    let ended = Counter()
    var next: TokenOwner? = nil
    for _ in 0..<count {
      let owner = TokenOwner()
      owner.lifetime.onEnd { [next] _ in
        _ = next
        ended.add()
      }
      next = owner
    }
    next = nil
    #expect(ended.value == count)
  }

  @Test func endAndDeinitRacingRunEachHookOnce() {
    for _ in 0..<2_000 {
      let token = Mutexed<OwnerLifetime.Token?>(OwnerLifetime.Token())
      let lifetime = token.value!.lifetime
      let runs = Counter()
      for _ in 0..<3 { lifetime.onEnd { _ in runs.add() } }
      DispatchQueue.concurrentPerform(iterations: 2) { side in
        if side == 0 { lifetime.end() } else { token.value = nil }
      }
      #expect(runs.value == 3)
    }
  }

  @Test func hooksAddedWhileTheOwnerEndsRunExactlyOnce() {
    for _ in 0..<500 {
      let lifetime = OwnerLifetime()
      let runs = Counter()
      DispatchQueue.concurrentPerform(iterations: 4) { side in
        if side == 0 {
          lifetime.end()
        } else {
          for _ in 0..<10 { lifetime.onEnd { _ in runs.add() } }
        }
      }
      #expect(runs.value == 30)
    }
  }

  @Test func hooksRunOutsideEveryLock() {
    let parent = OwnerLifetime()
    let lifetime = OwnerLifetime(parent: parent)
    let sibling = OwnerLifetime(parent: parent)
    let answered = DispatchSemaphore(value: 0)
    lifetime.onEnd { _ in
      // Another thread can use everything while the hook runs.
      Thread.detachNewThread {
        _ = (lifetime.isAlive, lifetime.parent, lifetime.description, sibling.name, parent.name)
        lifetime.onEnd { _ in }.cancel()
        sibling.end()
        _ = OwnerLifetime(parent: parent)
        answered.signal()
      }
      #expect(answered.wait(timeout: .now() + 60) == .success)
    }
    lifetime.end()
  }

  @Test func lastReferenceToABareLifetimeEndsIt() {
    let journal = Journal<OwnerID>()
    var lifetime: OwnerLifetime? = OwnerLifetime()
    let id = lifetime!.id
    lifetime!.onEnd { journal.write($0) }
    lifetime = nil
    #expect(journal.entries == [id])
    #expect(!OwnerLifetime.isAlive(id))
  }

  @Test func notificationIsPostedOnRequestOnly() {
    let silent = OwnerLifetime()
    let chatty = OwnerLifetime()
    chatty.postsDidEndNotification = true
    let journal = Journal<OwnerID?>()
    let observers = [silent, chatty].map { lifetime in
      NotificationCenter.default.addObserver(forName: .ownerDidEnd, object: lifetime, queue: nil) { note in
        journal.write(note.userInfo?[OwnerLifetime.ownerIDKey] as? OwnerID)
      }
    }
    silent.end()
    chatty.end()
    #expect(journal.entries == [chatty.id])
    observers.forEach(NotificationCenter.default.removeObserver)
  }

  @Test func tokenSharedByTwoObjectsBindsTheFirst() {
    final class Sharing: OperationOwner {
      let lifetimeToken: OwnerLifetime.Token
      init(_ token: OwnerLifetime.Token) { lifetimeToken = token }
    }
    let token = OwnerLifetime.Token()
    let first = Sharing(token)
    let second = Sharing(token)
    #expect(token.lifetime.bind(first))
    #expect(!token.lifetime.bind(second))
    #expect(token.lifetime.bind(first))
    #expect(OwnerLifetime.of(first) === OwnerLifetime.of(second))
  }
}
