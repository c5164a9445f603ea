import Dispatch

/// What all threads of a run share.
struct World: Sendable {
  let queues = Queues()
  let ledger = Ledger()
  /// Tasks, threads and blocks that come and go: who begins one enters.
  let group = DispatchGroup()
}
