extension SimulationScript {
  /// The shortest script that can be found which still fails: steps are left out, many at once first, then one by one; then what is left is
  /// made simpler. (Delta debugging.)
  /// - Parameter fails: whether the script still shows what is looked for.
  func shrunk(mostTries: Int = 5000, while fails: (SimulationScript) -> Bool) -> SimulationScript {
    var best = self
    var triesLeft = mostTries
    func isBetter(_ steps: [SimulationStep]) -> Bool {
      triesLeft -= 1
      guard triesLeft >= 0 else { return false }
      var script = best
      script.steps = steps
      guard fails(script) else { return false }
      best = script
      return true
    }
    var isShorter = true
    while isShorter {
      let before = best.steps
      best.leaveOut(isBetter)
      best.runTogether(isBetter)
      best.simplify(isBetter)
      isShorter = best.steps != before && triesLeft > 0
    }
    return best
  }

  private func leaveOut(_ isBetter: ([SimulationStep]) -> Bool) {
    var steps = steps
    var size = max(1, steps.count / 2)
    while size >= 1 {
      var start = 0
      while start < steps.count {
        let rest = Array(steps[..<start] + steps[min(steps.count, start + size)...])
        if isBetter(rest) { steps = rest } else { start += size }
      }
      size /= 2
    }
  }

  /// One step that runs everything takes the place of two that run one thing each.
  private func runTogether(_ isBetter: ([SimulationStep]) -> Bool) {
    let places = steps.indices.filter { steps[$0] == .runNext }
    guard let last = places.last else { return }
    for place in places.dropLast() {
      var changed = steps
      changed[last] = .runAll
      changed.remove(at: place)
      if isBetter(changed) { return }
    }
  }

  private func simplify(_ isBetter: ([SimulationStep]) -> Bool) {
    var steps = steps
    for place in steps.indices {
      var isSimpler = true
      while isSimpler {
        isSimpler = false
        for step in steps[place].simpler {
          var changed = steps
          changed[place] = step
          guard isBetter(changed) else { continue }
          steps = changed
          isSimpler = true
          break
        }
      }
    }
  }
}
