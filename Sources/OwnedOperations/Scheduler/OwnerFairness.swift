/// How the turns of owners with work of equal priority follow each other.
public enum OwnerFairness: Hashable, Sendable {
  /// In the order in which the work was added, whoever owns it.
  case firstComeFirstServed
  /// One piece of work of each owner after the other, so that an owner with much pending doesn't hold up the rest. The deliveries of an
  /// observation take turns as if they had an owner of their own. All work without an owner takes turns as if it had one. Operations and
  /// graph nodes that were cancelled before their turn take none.
  case roundRobin
}
