/// A job with an owner that is not the object its lifetime is bound to: several objects share a token.
final class SharedOwnerBody: WorkRecord {
  private let hold: OwnerHold
  private let body: ErasedOwnerBody.Body

  init(_ hold: OwnerHold, _ body: @escaping ErasedOwnerBody.Body) {
    self.hold = hold
    self.body = body
  }

  var account: WorkAccount { .item }

  func begin(_ piece: UInt32, at index: Int, on worker: AnyObject) {
    let worker = Worker.of(worker)
    guard mayStart(worker) else { return worker.end(index, .skipped) }
    var held: Retained<AnyObject>?
    switch hold.begin(&held) {
    case .begins(let owner):
      // Asked again, last, as for any job: to find out who holds the owner may take a while.
      guard mayStart(worker) else {
        worker.end(index, .skipped)
        return hold.endInBackground(owner)  // its deinit may wait for what the body has captured
      }
      worker.beginJob()
      hold.call(body, with: owner)
      worker.end(index, .succeeded)
      hold.end(owner)
    case .heldBack:
      worker.holdBack(.record(self, piece), at: index, until: hold)
      if let held { hold.endInBackground(held) }  // as above
    case .gone: worker.end(index, .skipped)
    }
  }

  private func mayStart(_ worker: Worker) -> Bool { worker.mayStart || Mutation.sharedJobSkipsTheLifetime.isOn }
}
