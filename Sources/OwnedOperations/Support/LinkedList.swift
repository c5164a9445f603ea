/// An object that can stand in a ``LinkedList``, one at a time.
protocol Linked: AnyObject {
  /// Written and read by the list only. Guarded as the list is.
  var links: Links<Self> { get set }
}

/// The neighbours of an object in its list.
struct Links<Element: AnyObject> {
  fileprivate var former: Borrowed<Element>?
  fileprivate var next: Borrowed<Element>?

  init() {}
}

/// Objects in the order in which they came, and somebody who goes round among them.
///
/// Keeps them. Each has its neighbours in itself, so that what comes and goes costs no memory here, and to append and to remove one takes
/// constant time.
struct LinkedList<Element: Linked>: ~Copyable {
  private var first: Borrowed<Element>?
  private var last: Borrowed<Element>?
  /// Who is looked at next by `take`; nil for the first.
  private var hand: Borrowed<Element>?
  private(set) var count = 0

  init() {}

  deinit {
    visit { element in
      element.links = Links()  // it may be in another list one day
      Retained(adopting: Borrowed(element)).release()
    }
  }

  mutating func append(_ element: Element) {
    let new = Retained(element).borrowed
    new.with { $0.links.former = last }
    if let last { last.with { $0.links.next = new } } else { first = new }
    last = new
    count += 1
  }

  /// - Returns: the reference that the list had.
  mutating func remove(_ element: Element) -> Element {
    let links = element.links
    if let former = links.former { former.with { $0.links.next = links.next } } else { first = links.next }
    if let next = links.next { next.with { $0.links.former = links.former } } else { last = links.former }
    if hand?.refers(to: element) ?? false { hand = links.next }
    element.links = Links()
    count -= 1
    return Retained(adopting: Borrowed(element)).take()
  }

  /// Looks at so many, from where the last call has come to, round and round, and removes those that the condition holds for.
  mutating func take(lookingAt most: Int, where isTaken: (Element) -> Bool) -> [Element] {
    var taken: [Element] = []
    for _ in 0..<min(most, count) {
      guard let looked = hand ?? first else { break }
      hand = looked.with { $0.links.next }
      if looked.with(isTaken) { taken.append(remove(looked.object)) }
    }
    return taken
  }

  /// The oldest first. The body removes none but the one that it is given.
  func visit(_ body: (Element) -> Void) {
    var next = first
    while let element = next {
      next = element.with { $0.links.next }
      element.with(body)
    }
  }

  func filter(_ isIncluded: (Element) -> Bool) -> [Element] {
    var included: [Element] = []
    visit { if isIncluded($0) { included.append($0) } }
    return included
  }
}
