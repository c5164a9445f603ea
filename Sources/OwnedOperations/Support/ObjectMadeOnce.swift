import Synchronization

/// An object that is made by whoever needs it first, and stays as long as this does.
///
/// `AtomicLazyReference` gives a counted reference to each who asks. Where many threads ask, all write to the object's count, which costs
/// more than what they ask for. Here nothing is counted: who has this has the object.
///
/// The word is zero, or the address of an object with a reference that goes with it. It changes once: by an exchange that releases, so that
/// who finds the address, acquiring, finds the object whole. Of several who make one at a time, all but the first let go of theirs.
struct ObjectMadeOnce<Object: AnyObject & Sendable>: ~Copyable, Sendable {
  private let word = Atomic<UInt>(0)

  /// The object, if there is one.
  @inline(__always)  // asked for each operation
  var object: Borrowed<Object>? {
    UnsafeMutableRawPointer(bitPattern: word.load(ordering: .acquiring)).map { Borrowed(address: $0) }
  }

  /// The object, made here if there is none.
  func object(madeBy make: () -> Object) -> Borrowed<Object> {
    if let object { return object }
    let new = Retained(make())
    let (isFirst, former) = word.compareExchange(
      expected: 0, desired: UInt(bitPattern: new.address), ordering: .acquiringAndReleasing)
    guard !isFirst, let made = UnsafeMutableRawPointer(bitPattern: former) else { return new.borrowed }
    new.release()
    return Borrowed(address: made)
  }

  deinit {
    if let address = UnsafeMutableRawPointer(bitPattern: word.load(ordering: .acquiring)) { Retained<Object>(address: address).release() }
  }
}
