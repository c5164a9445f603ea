/// The owner queues of a phase that go by the same rule, in the order in which they came. Guarded by the queue's lock.
///
/// Keeps them. Each has its neighbours in itself, so that owners who come and go cost no memory here, and to insert and to remove one takes
/// constant time.
struct OwnerQueueList: ~Copyable {
  /// Where an owner queue stands. It is in one list at most.
  struct Place {
    fileprivate var former: Borrowed<OwnerQueue>?
    fileprivate var next: Borrowed<OwnerQueue>?
  }

  private var first: Borrowed<OwnerQueue>?
  private var last: Borrowed<OwnerQueue>?
  /// Who is looked at next by `take`; nil for the first.
  private var hand: Borrowed<OwnerQueue>?
  private(set) var count = 0

  init() {}

  deinit { visit { Retained(adopting: Borrowed($0)).release() } }

  mutating func append(_ ownerQueue: OwnerQueue) {
    let new = Retained(ownerQueue).borrowed
    new.with { $0.place = Place(former: last) }
    if let last { last.with { $0.place.next = new } } else { first = new }
    last = new
    count += 1
  }

  /// - Returns: the reference that the list had.
  mutating func remove(_ ownerQueue: OwnerQueue) -> OwnerQueue {
    let place = ownerQueue.place
    if let former = place.former { former.with { $0.place.next = place.next } } else { first = place.next }
    if let next = place.next { next.with { $0.place.former = place.former } } else { last = place.former }
    if hand?.refers(to: ownerQueue) ?? false { hand = place.next }
    ownerQueue.place = Place()
    count -= 1
    return Retained(adopting: Borrowed(ownerQueue)).take()
  }

  /// Looks at so many, from where the last call has come to, round and round, and removes those that the condition holds for.
  mutating func take(lookingAt most: Int, where isTaken: (OwnerQueue) -> Bool) -> [OwnerQueue] {
    var taken: [OwnerQueue] = []
    for _ in 0..<min(most, count) {
      guard let looked = hand ?? first else { break }
      hand = looked.with { $0.place.next }
      if looked.with(isTaken) { taken.append(remove(looked.object)) }
    }
    return taken
  }

  /// The oldest first. The body removes none but the one that it is given.
  func visit(_ body: (OwnerQueue) -> Void) {
    var next = first
    while let ownerQueue = next {
      next = ownerQueue.with { $0.place.next }
      ownerQueue.with(body)
    }
  }

  func filter(_ isIncluded: (OwnerQueue) -> Bool) -> [OwnerQueue] {
    var included: [OwnerQueue] = []
    visit { if isIncluded($0) { included.append($0) } }
    return included
  }
}
